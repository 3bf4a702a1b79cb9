"""One event loop in one background thread for all sessions of a process, and its end.

Callers live on other threads and are given futures. A session belongs to the process that opened it and is closed when
that process ends: normally, by an exception, by Ctrl-C or by SIGTERM. What the main thread does meanwhile, generating
for minutes, say, does not matter: `keepalive` has a process of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from trainer.ors.advice import advise
from trainer.ors.discovery import resolve
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure, ORSError, ToolRefused
from trainer.ors.http import HTTPStatus, say
from trainer.ors.keepalive import Keepalive
from trainer.ors.outcomes import Outcome
from trainer.ors.patience import Health, patiently
from trainer.ors.sessions import CLOSE_TIMEOUT, Connection, Session, require_sdk

T = TypeVar("T")
Answer = tuple[Outcome | ORSError, float]

AFTER_END = "The episode has ended."  # what the model reads when it calls a tool after that


@dataclass(frozen=True)
class Outage:
    """An environment on which no session could be opened since a moment (seconds since the epoch)."""

    name: str
    since: float
    last_error: str


class _Loop:
    """The background thread, its event loop and what is connected on it."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self.keepalive = Keepalive()
        self.connections: dict[Endpoint, asyncio.Task[Connection]] = {}
        self.healths: defaultdict[Endpoint, Health] = defaultdict(Health)  # of connecting; of opening, see Connection
        self.thread = threading.Thread(target=self.loop.run_forever, name="ors-sessions", daemon=True)
        self.thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    async def connection(self, endpoint: Endpoint) -> Connection:
        """The endpoint's connection, made once however many ask for it at the same time."""
        task = self.connections.get(endpoint)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self.connections[endpoint] = asyncio.create_task(resolve(endpoint, self.keepalive))
        return await asyncio.shield(task)

    def made(self) -> list[Connection]:
        tasks = [t for t in list(self.connections.values()) if t.done() and not t.cancelled() and t.exception() is None]
        return [task.result() for task in tasks]

    async def close(self) -> None:
        """End what is under way, then close every session and connection."""
        connections = self.made()
        finishing = {task for connection in connections for task in connection.finishing}
        await _end(asyncio.all_tasks() - {asyncio.current_task()} - finishing)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await asyncio.gather(*(connection.close_all() for connection in connections))
        await _end(asyncio.all_tasks() - {asyncio.current_task()})
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)
        await self.loop.shutdown_asyncgens()

    def abandon(self) -> None:
        """Leave a parent process's loop alone: to close what it has open would close it for the parent too."""
        self.loop.set_exception_handler(lambda *_: None)  # aiohttp reports unclosed clients there
        self.keepalive.abandon()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: a request takes less processor time with it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_current: _Loop | None = None
_abandoned: list[_Loop] = []
_lock = threading.RLock()  # a signal handler may close while its own thread is starting


def _running() -> _Loop:
    global _current
    with _lock:
        if _current is None:
            require_sdk()
            _current = _Loop()
            _close_at_exit()
            _close_on_sigterm()
        return _current


def _close_at_exit() -> None:
    """Closing may need a thread to look up a host, and atexit comes after the end of all thread pools. What threading
    itself runs at the end comes before where it was registered later than the pools' own end, which importing them
    does; and it comes in multiprocessing's workers too."""
    import concurrent.futures.thread  # noqa: F401

    register = getattr(threading, "_register_atexit", atexit.register)
    with suppress(RuntimeError):  # the process is ending already
        register(close_all)


def _in_forked_child() -> None:
    """A child has neither the thread nor a right to the sessions; and the lock may have been held."""
    global _current, _lock
    _lock = threading.RLock()
    if _current is not None:
        _current.abandon()
        _abandoned.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def close_all() -> None:
    """Close every session and connection of this process; later use starts anew."""
    global _current
    with _lock:
        loop, _current = _current, None
    if loop is None or not loop.thread.is_alive():
        return
    with suppress(Exception):
        loop.submit(loop.close()).result(CLOSE_TIMEOUT + 2)
    loop.loop.call_soon_threadsafe(loop.loop.stop)
    loop.thread.join(2)
    loop.keepalive.close()
    if not loop.thread.is_alive():
        loop.loop.close()


def _close_on_sigterm() -> None:
    """SIGTERM's default ends a process without a word to anyone. Where nobody has taken it, close sessions first."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def handle(number: int, frame: FrameType | None) -> None:
        close_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        sys.exit(128 + number)  # still here: the first process of a container, which default signals do not end

    signal.signal(signal.SIGTERM, handle)


def open_session(endpoint: Endpoint, split: str, index: int) -> Future[Session]:
    """Open a session on a task. The future raises EnvironmentFailure, or ConfigurationError for a wrong endpoint."""

    async def opened(loop: _Loop) -> Session:
        health = loop.healths[endpoint]
        connection = await patiently(lambda _: loop.connection(endpoint), health, endpoint.open_timeout)
        return await connection.open(split, index)

    loop = _running()
    return loop.submit(opened(loop))


async def _answer(
    connecting: Awaitable[Connection], session: Session, tool: str, arguments: Mapping[str, Any]
) -> Outcome | ORSError:
    """What comes of a call, whatever it is: raised, it would reach the model as if it were to blame."""
    try:
        return await (await connecting).call(session, tool, arguments)
    except (ToolRefused, EnvironmentFailure) as error:
        return error
    except Exception as error:
        return EnvironmentFailure("crash", f"tool {tool!r}: {say(error)}")


def call_tools(
    endpoint: Endpoint, session: Session, calls: Sequence[tuple[str, Mapping[str, Any]]]
) -> Future[list[Answer]]:
    """Run a turn's calls in their order, each once, until the episode is over; answers are aligned with calls.

    An answer is what the tool gave, or the ToolRefused or EnvironmentFailure that came instead, and its seconds.
    Nothing is sent after a call that finished the episode or met a failure of the environment.
    """

    async def called(loop: _Loop) -> list[Answer]:
        answers: list[Answer] = []
        over: ORSError | None = None
        for tool, arguments in calls:
            if over is not None:
                answers.append((over, 0.0))
                continue
            start = time.monotonic()
            answer = await _answer(loop.connection(endpoint), session, tool, arguments)
            if isinstance(answer, EnvironmentFailure):
                over = answer
            elif isinstance(answer, Outcome) and answer.finished:
                over = ToolRefused("after_end", AFTER_END)
            answers.append((answer, time.monotonic() - start))
        return answers

    loop = _running()
    return loop.submit(called(loop))


def close_session(endpoint: Endpoint, session: Session) -> None:
    """Begin to close a session. Nothing to do where all are closed already."""

    async def closed(loop: _Loop) -> None:
        (await loop.connection(endpoint)).close_session(session)

    loop = _current
    if loop is not None:
        loop.submit(closed(loop))


def on_connection(endpoint: Endpoint, ask: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """What `ask` gives for the endpoint's connection; blocks the calling thread. A refusal has a note on what to do."""

    async def asked(loop: _Loop) -> T:
        try:
            return await ask(await loop.connection(endpoint))
        except HTTPStatus as status:
            await advise(status, endpoint, loop.keepalive)
            raise

    loop = _running()
    return loop.submit(asked(loop)).result()


def probe() -> Future[None]:
    """Try once to open a session, and close it again, on every environment on which the last opening failed."""
    loop = _running()

    async def tried() -> None:
        down = [connection for connection in loop.made() if connection.health.down_since is not None]
        await asyncio.gather(*(connection.probe() for connection in down))

    return loop.submit(tried())


def outages() -> list[Outage]:
    """The environments of this process on which the last opening failed, with the time it has been so."""
    loop = _current
    if loop is None:
        return []
    healths = [(endpoint.address, health) for endpoint, health in list(loop.healths.items())]
    healths += [(connection.wire.name, connection.health) for connection in loop.made()]
    return [Outage(name, h.down_since, h.last_error) for name, h in healths if h.down_since is not None]
