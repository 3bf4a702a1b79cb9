"""Worker processes that take turns at requests, each started when it is first needed and replaced when it is late.

What a request may take is kept by `worker.py`, inside the process that runs it, in processor time: what others run must
not decide on what a query is worth. Here a worker is ended when it gets none for long.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import os
import queue
import selectors
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from envs.sql.worker import LATE

_START_SECONDS = 30.0
_ROOT = Path(__file__).resolve().parents[2]


class Full(Exception):
    """Others kept a request from being answered in time: no worker became free, or it got no processor."""


class Pool:
    """A number of workers that answer requests in the order of their arrival."""

    def __init__(self, size: int, *, seconds: float, wall: float, late: float, niceness: int = 0) -> None:
        """Prepare a pool; no process is started yet.

        Args:
            size: how many requests run at a time, each in a process of about 15 MB.
            seconds: how much processor time a request may take.
            wall: how many seconds may pass meanwhile.
            late: how many seconds after that its worker is ended.
            niceness: by how much the workers give way to other processes, 0 to 19.
        """
        self._seconds = seconds
        self._wall = wall
        self._workers = [_Worker(late, niceness) for _ in range(size)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)
        # Threads of its own: the server's default ones, which open and close sessions, never wait for a query.
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="sql")
        atexit.register(self.stop)

    async def ask(
        self, request: dict[str, Any], *, wait: float = math.inf, wall: float | None = None
    ) -> dict[str, Any] | None:
        """Return a worker's answer to a request, or None when the request used up its processor time.

        Args:
            request: the arguments of `worker.answer`, without `seconds` and `wall`.
            wait: for how many seconds the request may wait for its turn. That it has waited longer is found out when
                its turn comes, which is at most the time of one request later.
            wall: how many seconds may pass from its turn on, where that is not the pool's own number.

        Raises:
            Full: it has waited longer, or that time passed before it had its processor time.
            RuntimeError, OSError: no worker could be started.
        """
        limits = {"seconds": self._seconds, "wall": self._wall if wall is None else wall}
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._ask, {**request, **limits}, time.monotonic() + wait)

    def stop(self) -> None:
        """End the workers; a later request starts new ones."""
        for worker in self._workers:
            worker.stop()

    def _ask(self, request: dict[str, Any], latest_start: float) -> dict[str, Any] | None:
        if time.monotonic() > latest_start:
            raise Full
        worker = self._idle.get()
        try:
            return worker.ask(request)
        finally:
            self._idle.put(worker)


class _Worker:
    """One worker process."""

    def __init__(self, late: float, niceness: int) -> None:
        self._late = late
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        process = self._started()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process.stdout.fileno(), time.monotonic() + request["wall"] + self._late)
            answer: dict[str, Any] | None = json.loads(line)
        except TimeoutError:
            self.stop()
            raise Full from None
        except (OSError, EOFError):
            if self.stop() == -signal.SIGPROF:
                return None
            return {"error": "the query brought the database down; write it another way"}
        if answer == LATE:
            raise Full
        return answer

    def stop(self) -> int | None:
        """End the process, if there is one, and return its status."""
        process, self._process = self._process, None
        status = None
        if process:
            process.kill()
            status = process.wait()
            assert process.stdin and process.stdout
            process.stdout.close()
            with suppress(BrokenPipeError):  # of a request that it did not read
                process.stdin.close()
        return status

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
                if self._niceness:
                    pid = self._process.pid
                    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + self._niceness)
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
