"""Time and requests that a dataset takes: TRL's spec and ours, in turns, against the same server.

    python -m benchmarks.dataset [--quick] [--json FILE]

The server is the SDK's plain one, with a counter before it. Every measurement starts from a new spec and a new
connection.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import started
from benchmarks.waiting import TASKS, Waiting

COUNT_PATH = "/requests-so-far"


@dataclass(frozen=True)
class Row:
    """One line of the table: medians in seconds, and requests."""

    tasks: int
    chosen_by: str
    ours_s: float
    trl_s: float
    ratio: float
    ours_requests: int
    trl_requests: int


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dataset", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="64 tasks only, three rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file, too")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.serve:
        serve_counted(arguments.port)
        return 0
    print(HEADER, flush=True)
    rows = []
    with started("benchmarks.dataset", "--serve") as server:
        for tasks in (64,) if arguments.quick else (64, TASKS):
            for chosen_by in ("num_tasks", "indices"):
                rows.append(measure(server.url, tasks, chosen_by, 3 if arguments.quick else 5))
                print(line(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


def measure(url: str, tasks: int, chosen_by: str, rounds: int) -> Row:
    """Build the dataset with each spec by turns; `indices` are drawn at random, in no order."""
    indices = random.Random(0).sample(range(TASKS), tasks)
    choice = {"num_tasks": tasks} if chosen_by == "num_tasks" else {"indices": indices}
    seconds: dict[str, list[float]] = {"trl": [], "ours": []}
    requests: dict[str, int] = {}
    for number in range(rounds):
        for name in ("trl", "ours") if number % 2 == 0 else ("ours", "trl"):
            before = requests_so_far(url)
            spec = new_spec(name, url, choice)
            start = time.perf_counter()
            rows = len(spec.train_dataset)
            seconds[name].append(time.perf_counter() - start)
            requests[name] = requests_so_far(url) - before
            if rows != tasks:
                raise RuntimeError(f"{name}: {rows} rows for {tasks} tasks")
    ours, trl = statistics.median(seconds["ours"]), statistics.median(seconds["trl"])
    return Row(tasks, chosen_by, ours, trl, trl / ours, requests["ours"], requests["trl"])


def new_spec(name: str, url: str, choice: dict[str, Any]) -> Any:
    """A spec that has asked nothing yet, on no connection that is open."""
    if name == "trl":
        os.environ.update(OPENREWARD_API_URL=url, OPENREWARD_SESSION_URL=url, OPENREWARD_API_KEY="none")
        os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", OPENREWARD_DISABLE_UPDATE_CHECK="1")
        from trl.experimental.openreward import OpenRewardSpec as TRLSpec

        return TRLSpec(url, env_name="waiting", **choice)
    from trainer import OpenRewardSpec
    from trainer.ors import loop

    loop.close_all()
    return OpenRewardSpec(url, env_name="waiting", **choice)


def serve_counted(port: int) -> None:
    """Serve the environment, and at COUNT_PATH the number of requests."""
    import uvicorn
    from openreward.environments import Server

    app = Server([Waiting]).app
    count = 0

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        if scope["type"] != "http" or scope["path"] != COUNT_PATH:
            count += scope["type"] == "http"
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": str(count).encode()})

    uvicorn.run(counted, host="127.0.0.1", port=port, log_level="warning")


def requests_so_far(url: str) -> int:
    """What the server has counted."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + COUNT_PATH, timeout=30) as answer:
        return int(answer.read())


COLUMNS = ("tasks", "chosen by", "TRL s", "ours s", "TRL/ours", "TRL requests", "our requests")
WIDTHS = (8, 12, 9, 9, 10, 14, 14)
HEADER = "".join(name.rjust(width) for name, width in zip(COLUMNS, WIDTHS, strict=True))


def line(row: Row) -> str:
    """One line of the table."""
    seconds = (f"{row.trl_s:.3f}", f"{row.ours_s:.3f}", f"{row.ratio:.1f}")
    cells = (str(row.tasks), row.chosen_by, *seconds, str(row.trl_requests), str(row.ours_requests))
    return "".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True))


if __name__ == "__main__":
    sys.exit(main())
