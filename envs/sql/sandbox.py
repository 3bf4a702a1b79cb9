"""Running a model's SQL where it can do no harm: in worker processes, off the event loop, within limits.

The limits of a query are kept by `worker.py`, inside the process that runs it. Here a worker is replaced when it is
late or gone: SQLite checks its deadline between steps, and there are single steps that take long.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import queue
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.sql.compare import Row

WORKERS = min(16, max(4, os.cpu_count() or 1))  # each takes about 15 MB
QUERY_SECONDS = 2.0
LONGEST_SQL = 10_000

_LATE_SECONDS = 1.0
_START_SECONDS = 30.0
_ROOT = Path(__file__).resolve().parents[2]


class QueryError(Exception):
    """A query was refused, failed, or took too much; the message is for the model."""


@dataclass(frozen=True)
class Result:
    """What a query returned.

    Attributes:
        columns: names, as SQLite gives them.
        rows: the first rows, with long texts cut.
        total: how many rows there are, as far as they were counted.
        complete: whether `total` counts them all.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    total: int
    complete: bool


async def run(domain: str, edition: int, sql: str, *, rows: int, count: int = 1000) -> Result:
    """Run a query on a fresh in-memory copy of a database that is gone when the answer is there.

    Args:
        domain, edition: which database.
        sql: one statement from an untrusted source.
        rows: how many rows are returned.
        count: how many rows are counted.

    Raises:
        QueryError: the query is not allowed, wrong, or exceeds the limits: the model's mistake.
        RuntimeError, OSError: no worker could be started: the environment's failure.
    """
    if len(sql) > LONGEST_SQL:
        raise QueryError(f"the query is longer than {LONGEST_SQL:,} characters")
    request = {"domain": domain, "edition": edition, "sql": sql, "rows": rows, "count": max(rows, count)}
    answer = await asyncio.get_running_loop().run_in_executor(_threads, _ask, {**request, "seconds": QUERY_SECONDS})
    if "error" in answer:
        raise QueryError(answer["error"])
    return Result(**answer)


class _Worker:
    """One worker process, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process.stdout.fileno(), time.monotonic() + request["seconds"] + _LATE_SECONDS)
            answer: dict[str, Any] = json.loads(line)
        except TimeoutError:
            self.stop()
            return {"error": f"the query took longer than {request['seconds']:g} s and was stopped"}
        except (OSError, EOFError):
            self.stop()
            return {"error": "the query brought the database down; write it another way"}
        return answer

    def stop(self) -> None:
        """End the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.wait()
            assert process.stdin and process.stdout
            process.stdout.close()
            with suppress(BrokenPipeError):  # of a request that it did not read
                process.stdin.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "envs.sql.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Not this process's environment: it holds keys.
                env={"PYTHONPATH": str(_ROOT), "PATH": os.defpath},
                # Ctrl-C is for the server, which ends its workers itself.
                start_new_session=True,
            )
            assert self._process.stdout
            try:
                self._line(self._process.stdout.fileno(), time.monotonic() + _START_SECONDS)
            except (TimeoutError, EOFError) as error:
                self.stop()
                raise RuntimeError(
                    "the process that runs queries does not start; its own words are in the log"
                ) from error
        return self._process

    @staticmethod
    def _line(descriptor: int, deadline: float) -> bytes:
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not text.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                part = os.read(descriptor, 65536)
                if not part:
                    raise EOFError
                text += part
        return text


_idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
_workers = [_Worker() for _ in range(WORKERS)]
for _worker in _workers:
    _idle.put(_worker)
# Threads of its own: the server's default ones, which open and close sessions, never wait for a query.
_threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="sql")


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    worker = _idle.get()
    try:
        return worker.ask(request)
    finally:
        _idle.put(worker)


@atexit.register
def _stop_all() -> None:
    for worker in _workers:
        worker.stop()
