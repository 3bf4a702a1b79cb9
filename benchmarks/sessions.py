"""What many open sessions cost a trainer: memory for each, time to open them and time to close them all.

    python -m benchmarks.sessions [--quick] [--json FILE]

Run it in a process of its own: memory that something else gave back would be used again and not be seen.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.process import resident_bytes, started


@dataclass(frozen=True)
class Figures:
    """What was measured; times in seconds."""

    sessions: int
    open_s: float
    kib_per_session: float
    close_s: float
    left_open: int


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="64 sessions instead of 512")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args(argv)
    with started("benchmarks.waiting") as server:
        figures = measure(server.url, 64 if arguments.quick else 512)
    print(
        f"{figures.sessions} sessions: opened in {figures.open_s:.2f} s, {figures.kib_per_session:.0f} KiB each, "
        f"closed in {figures.close_s:.2f} s, {figures.left_open} left open"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")
    return 0


def measure(url: str, count: int) -> Figures:
    """Open so many sessions through adapters, as the trainer does, then close them as the end of the process does."""
    from trainer import OpenRewardSpec
    from trainer.ors import loop

    factory = OpenRewardSpec(url, env_name="waiting").environment_factory
    rollouts = [factory() for _ in range(8)]
    for rollout in rollouts:
        rollout.reset(task_index=0)  # what is loaded once is no session's
        rollout._close()
    gc.collect()
    before, start = resident_bytes(os.getpid()), time.perf_counter()
    rollouts = [factory() for _ in range(count)]
    for index, rollout in enumerate(rollouts):
        rollout._prepare({"task_index": index})
    for index, rollout in enumerate(rollouts):
        rollout.reset(task_index=index)
    opened = time.perf_counter() - start
    if failed := [rollout.failure for rollout in rollouts if rollout.failure is not None]:
        raise RuntimeError(f"{len(failed)} of {count} sessions were not opened: {failed[0]}")
    gc.collect()
    memory = (resident_bytes(os.getpid()) - before) / count / 1024
    start = time.perf_counter()
    loop.close_all()
    return Figures(count, opened, memory, time.perf_counter() - start, sessions_open(url))


def sessions_open(url: str) -> int:
    """How many sessions the server has open."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/metrics", timeout=30) as answer:
        found = re.search(r"^ors_sessions_open (\d+)", answer.read().decode(), re.MULTILINE)
    if found is None:
        raise RuntimeError("the server does not say how many sessions are open")
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
