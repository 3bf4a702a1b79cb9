"""Sessions are kept alive by a process of its own, which no generation that holds the interpreter can stop.

A thread beside it could not: where the main thread keeps the interpreter for seconds at a time, each turn of an event
loop takes so long, a ping needs several, and a server's reaper does not wait.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

logger = logging.getLogger(__name__)

SHORT_LIFE = 5.0  # seconds: a process that ends before will not do better the next time
STALLED = 2.0  # seconds that what it is told may wait to be read; sessions are opened and closed meanwhile


class Keepalive:
    """Pings of the sessions of one process, from their opening to their end. Everything here runs on the loop.

    The process starts with the first session. It is started again where something ends it, and told of all sessions.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[bytes, Callable[[], object]]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._given_up = False
        self._lock = asyncio.Lock()  # one line at a time

    async def keep(
        self, sid: str, base: str, headers: Mapping[str, str], every: float, lost: Callable[[], object]
    ) -> None:
        """Ping a session every so many seconds; once this returns, whatever this process does.

        Args:
            sid: The session's id.
            base: The address of its server.
            headers: Sent with every ping. They reach the process through the socket: its command line is public.
            every: Seconds.
            lost: Called when the server does not know the session any more.
        """
        line = _line({"sid": sid, "base": base, "headers": dict(headers), "every": every})
        self._kept[sid] = (line, lost)
        async with self._lock:
            if self._listening is None and not self._given_up:
                await self._tell_all()
            else:
                await self._tell(line)

    async def drop(self, sid: str) -> None:
        """Ping a session no more."""
        if self._kept.pop(sid, None) is not None:
            async with self._lock:
                await self._tell(_line({"sid": sid}))

    def close(self) -> None:
        """End the process. It holds nothing that would be lost."""
        self._kept.clear()
        self._end()

    def abandon(self) -> None:
        """In a forked child: leave the parent its process, which must not outlive the parent for the child's sake."""
        if self._socket is not None:
            os.close(self._socket.detach())
        if self._process is not None:
            self._process.returncode = 0  # not a child of this process; subprocess would warn that it still runs

    def _start(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._socket, other = socket.socketpair()
        self._socket.setblocking(False)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "trainer.ors.pinger"],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the trainer, which has sessions to close
            )
        self._listening = asyncio.create_task(self._listen(self._socket, self._process))

    async def _tell_all(self) -> None:
        try:
            self._start()
        except OSError as error:
            self._end()
            self._give_up(str(error))
        await self._tell(b"".join(line for line, _ in self._kept.values()))

    async def _tell(self, lines: bytes) -> None:
        if self._socket is None or self._process is None:
            return
        try:
            async with asyncio.timeout(STALLED):
                await asyncio.get_running_loop().sock_sendall(self._socket, lines)
        except TimeoutError:
            self._process.kill()  # another one is told of all sessions
        except OSError:
            pass  # the process has ended, which _listen sees

    async def _listen(self, own: socket.socket, process: subprocess.Popen[bytes]) -> None:
        began, rest = time.monotonic(), b""
        with suppress(OSError):
            while data := await asyncio.get_running_loop().sock_recv(own, 4096):
                *sids, rest = (rest + data).split(b"\n")
                for sid in sids:
                    _, lost = self._kept.get(sid.decode(), (b"", _nothing))
                    lost()
        async with self._lock:  # to close a socket that is being written to would leave the writer waiting for ever
            self._end()
            if time.monotonic() - began < SHORT_LIFE:
                self._give_up(f"its process ended at once, with status {process.returncode}")
            else:
                await self._tell_all()

    def _give_up(self, why: str) -> None:
        self._given_up = True
        logger.warning("sessions that wait for long are not kept alive: %s", why)

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _line(told: Mapping[str, object]) -> bytes:
    return json.dumps(told).encode() + b"\n"


def _nothing() -> None:
    """What is done about a session that was dropped meanwhile."""
