"""This project's server beside the SDK's plain `Server.run`: the same environment, the same load, in turns.

    python -m benchmarks.server [--quick] [--json FILE]

Both servers run in processes of their own and are asked by this one. A figure of one run says little about a machine
that does other things, too; the ratio of two servers measured in turns says more, and so does the processor time that
a server spends on one call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.process import Running, started

KINDS = ("plain", "ours")
MODULE = "benchmarks.server"  # under its own name also where it runs as `__main__`
_CALL = {"name": "echo", "input": {"text": "no word of the environment"}}
_CREATE = {"split": "train", "index": 0, "env_name": "echo"}


@dataclass(frozen=True)
class Plan:
    """How much is measured: sessions, seconds, calls a second."""

    rounds: int = 5
    busy_sessions: int = 32
    busy_seconds: float = 4.0
    open_sessions: int = 2000
    call_rate: int = 200
    rate_seconds: float = 15.0


QUICK = Plan(rounds=2, busy_seconds=1.5, open_sessions=200, rate_seconds=3.0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds only: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.serve:
        serve(arguments.serve, arguments.port)
        return 0
    result = measure(QUICK if arguments.quick else Plan())
    print(table(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def serve(kind: str, port: int) -> None:
    """Serve echo until told to stop; this is what runs in a server's process."""
    from envs import catalog

    environment = catalog.load("echo")
    if kind == "plain":
        from openreward.environments import Server

        Server([environment]).run(host="127.0.0.1", port=port)
    else:
        from envs.server import Settings
        from envs.server import serve as serve_ours

        serve_ours([environment], Settings(port=port, max_calls=10**9))


def measure(plan: Plan) -> dict[str, Any]:
    """Measure both servers and return the figures by kind, with the ratio of every round."""
    rounds: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    crowds: dict[str, dict[str, float]] = {}
    with (
        started("benchmarks.server", "--serve", "plain") as plain,
        started("benchmarks.server", "--serve", "ours") as ours,
    ):
        servers = {"plain": plain, "ours": ours}
        for server in servers.values():  # both warm
            asyncio.run(busy(server, plan.busy_sessions, plan.busy_seconds / 4))
        for number in range(plan.rounds):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                rounds[kind].append(asyncio.run(busy(servers[kind], plan.busy_sessions, plan.busy_seconds)))
        for kind, server in servers.items():
            crowds[kind] = asyncio.run(crowd(server, plan))
    pairs = list(zip(rounds["ours"], rounds["plain"], strict=True))
    ratios = [ours["calls_per_second"] / plain["calls_per_second"] for ours, plain in pairs]
    figures = {
        kind: {name: statistics.median(r[name] for r in rounds[kind]) for name in rounds[kind][0]} for kind in KINDS
    }
    return {"plan": asdict(plan), "busy": figures, "ratios": ratios, "crowd": crowds}


async def busy(server: Running, sessions: int, seconds: float) -> dict[str, float]:
    """Keep sessions calling, each one call after the other, and return calls a second and times in ms."""
    latencies: list[float] = []
    async with client() as http:
        sids = await open_sessions(http, server.url, sessions)
        used, start = server.processor_seconds(), time.perf_counter()

        async def go_on(sid: str) -> None:
            while time.perf_counter() < start + seconds:
                before = time.perf_counter()
                await call(http, server.url, sid)
                latencies.append(time.perf_counter() - before)

        await asyncio.gather(*(go_on(sid) for sid in sids))
        elapsed, used = time.perf_counter() - start, server.processor_seconds() - used
        await close_sessions(http, server.url, sids)
    return {
        "calls_per_second": len(latencies) / elapsed,
        "processor_ms_per_call": 1000 * used / len(latencies),
        **percentiles(latencies),
    }


async def crowd(server: Running, plan: Plan) -> dict[str, float]:
    """Open many sessions, call them at a fixed rate, and return the memory and the times in ms.

    A call's time counts from the moment at which it was due, so that a server that falls behind is not spared.
    """
    latencies: list[float] = []
    pick = random.Random(0)
    async with client() as http:
        sids = await open_sessions(http, server.url, plan.open_sessions)
        start = time.perf_counter()

        async def due(moment: float, sid: str) -> None:
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            await call(http, server.url, sid)
            latencies.append(time.perf_counter() - moment)

        count = int(plan.call_rate * plan.rate_seconds)
        await asyncio.gather(*(due(start + number / plan.call_rate, pick.choice(sids)) for number in range(count)))
        memory = server.memory_mib()
        await close_sessions(http, server.url, sids)
    return {"sessions": plan.open_sessions, "memory_mib": memory, **percentiles(latencies)}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return median and 99th percentile in ms."""
    ordered = sorted(seconds)
    return {"p50_ms": 1000 * statistics.median(ordered), "p99_ms": 1000 * ordered[int(0.99 * (len(ordered) - 1))]}


def client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256))


async def open_sessions(http: aiohttp.ClientSession, url: str, count: int) -> list[str]:
    """Open sessions, a hundred at a time, and return their ids."""
    sids = [f"bench-{os.urandom(6).hex()}" for _ in range(count)]

    async def open_one(sid: str) -> None:
        async with http.post(f"{url}/create", json=_CREATE, headers={"X-Session-ID": sid}) as response:
            response.raise_for_status()

    for first in range(0, count, 100):
        await asyncio.gather(*(open_one(sid) for sid in sids[first : first + 100]))
    return sids


async def close_sessions(http: aiohttp.ClientSession, url: str, sids: Sequence[str]) -> None:
    for first in range(0, len(sids), 100):
        deletions = (http.post(f"{url}/delete", headers={"X-Session-ID": sid}) for sid in sids[first : first + 100])
        for response in await asyncio.gather(*deletions):
            response.release()


async def call(http: aiohttp.ClientSession, url: str, sid: str) -> None:
    """Make one call and check its answer.

    Raises:
        RuntimeError: the answer is none.
    """
    async with http.post(f"{url}/echo/call", json=_CALL, headers={"X-Session-ID": sid}) as response:
        body = await response.read()
    if response.status != 200 or b'"ok":true' not in body:
        raise RuntimeError(f"a call was answered {response.status}: {body[:300]!r}")


def table(result: dict[str, Any]) -> str:
    """Return the figures as text, the two servers side by side."""
    plan, busy_figures, crowds = result["plan"], result["busy"], result["crowd"]
    ratios = sorted(result["ratios"])
    rows = [
        (f"{plan['busy_sessions']} sessions calling without pause, median of {plan['rounds']} rounds", "", ""),
        *_pair("  calls a second", busy_figures, "calls_per_second", "{:.0f}"),
        *_pair("  processor time of a call, ms", busy_figures, "processor_ms_per_call", "{:.2f}"),
        *_pair("  time of a call, median, ms", busy_figures, "p50_ms", "{:.1f}"),
        *_pair("  time of a call, 99 %, ms", busy_figures, "p99_ms", "{:.1f}"),
        (f"{plan['open_sessions']} sessions open, {plan['call_rate']} calls a second", "", ""),
        *_pair("  memory, MiB", crowds, "memory_mib", "{:.0f}"),
        *_pair("  time of a call, median, ms", crowds, "p50_ms", "{:.1f}"),
        *_pair("  time of a call, 99 %, ms", crowds, "p99_ms", "{:.1f}"),
    ]
    lines = [f"{'':62}{'SDK':>10}{'ors-env':>10}", *(f"{name:62}{plain:>10}{ours:>10}" for name, plain, ours in rows)]
    middle = statistics.median(ratios)
    lines.append(f"ratio of calls a second: {middle:.2f} (rounds from {ratios[0]:.2f} to {ratios[-1]:.2f})")
    return "\n".join(lines)


def _pair(name: str, figures: dict[str, dict[str, float]], key: str, form: str) -> list[tuple[str, str, str]]:
    return [(name, form.format(figures["plain"][key]), form.format(figures["ours"][key]))]


if __name__ == "__main__":
    sys.exit(main())
