"""The whole server as one ASGI app: the SDK's own app in the layers that make it fit to face the internet."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from openreward.environments import Environment
from openreward.environments.server import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envs.catalog import OWN_PATHS
from envs.server import errors, logs, sdk
from envs.server.access import Access
from envs.server.body import BodyLimit
from envs.server.calls import Calls
from envs.server.errors import Guard
from envs.server.gate import SessionGate
from envs.server.health import Exposition, Ready
from envs.server.metrics import Metrics
from envs.server.page import Page
from envs.server.reaper import Reaper
from envs.server.redaction import Redaction
from envs.server.results import Results
from envs.server.routes import Routes
from envs.server.settings import Settings

logger = logging.getLogger(__name__)

OPEN_PATHS = ("/", "/health", "/page", "/page/")
_CUT_OFF_SECONDS = 0.25
_TEARDOWN_SECONDS = 2.0
_THREAD_NAME = "environment-code"


def build(environments: Sequence[type[Environment]], settings: Settings) -> Application:
    """Build the ASGI app that serves these environments; the first is the default.

    It changes what the SDK's server modules do in this process, so one process has one of it.

    Raises:
        ValueError: an environment has no tools, no splits or no prompt, two have one name, or a name is one of the
            server's own paths.
    """
    return Application(environments, settings)


class Application:
    """The app with what its owner needs to end it well: `stop`, then `finish`, at last `release_threads`."""

    def __init__(self, environments: Sequence[type[Environment]], settings: Settings) -> None:
        self._settings = settings
        self._redaction = Redaction(settings.api_keys)
        logs.configure(settings, self._redaction)
        _check_names(environments)
        served = Server(list(environments), return_errors="exception" if settings.show_errors else "none")
        errors.add_handlers(served.app)
        self._metrics = Metrics()
        self._calls = Calls(settings, self._metrics)
        results = Results(self._calls.told)
        self._sessions = sdk.Sessions(served, show_errors=settings.show_errors, ended=results.forget)
        sdk.intercept_calls(self._calls, self._calls.run, results.stream)
        sdk.spare_work(served.app)
        self._gate = SessionGate(served.app, self._sessions, settings.max_sessions, self._metrics, self._redaction)
        self._show(results)
        self._ready = Ready(environments, settings)
        page = Page(environments, key_needed=bool(settings.api_keys))
        own: dict[str, ASGIApp] = {
            "/ready": self._ready,
            "/metrics": Exposition(self._metrics),
            "/": page,
            "/page": page,
            "/page/": page,
        }
        inner = Routes(BodyLimit(self._gate, settings.max_body_bytes, self._metrics), own)
        self._threads = ThreadPoolExecutor(settings.threads, _THREAD_NAME)
        self._app = Guard(Access(inner, settings.api_keys, OPEN_PATHS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def stop(self) -> None:
        """Say from now on that the server is not ready, and open nothing new; may be called in a signal handler."""
        self._ready.stopping = True
        self._gate.stopping = True

    async def finish(self) -> None:
        """Wait for what clients wait for, no longer than `drain_seconds`, and cut off what is not over then."""
        deadline = time.monotonic() + self._settings.drain_seconds
        await _until(lambda: not (self._calls.running or self._gate.unanswered), deadline)
        self._calls.cut_off()
        await _until(lambda: not self._calls.running, deadline + _CUT_OFF_SECONDS / 2)
        self._gate.cut_off()
        await _until(lambda: not self._gate.unanswered, deadline + _CUT_OFF_SECONDS)

    def release_threads(self, seconds: float) -> bool:
        """Let the threads of environments' code end, once the loop has; tell whether all did in so many seconds."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + seconds
        running = [thread for thread in threading.enumerate() if thread.name.startswith(_THREAD_NAME)]
        for thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in running)

    def _show(self, results: Results) -> None:
        show = self._metrics.show
        show("ors_sessions_open", "Sessions open now, or being torn down.", lambda: len(self._sessions))
        show("ors_requests_unanswered", "Requests whose answer has not begun.", lambda: self._gate.unanswered)
        show("ors_results_kept_bytes", "Results kept for clients that come back for them.", lambda: results.size)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def started(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._start()
            await send(message)

        async def stopping() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._end()
            return message

        await self._app(scope, stopping, started)

    def _start(self) -> None:
        asyncio.get_running_loop().set_default_executor(self._threads)
        self._sessions.stop_sdk_reaper()
        reaper = Reaper(
            self._sessions, self._calls, self._gate, self._settings.idle_seconds, self._metrics, self._redaction
        )
        self._reaping = asyncio.create_task(reaper.run())

    async def _end(self) -> None:
        self._reaping.cancel()
        ending = [asyncio.create_task(self._end_session(sid)) for sid in {*self._sessions, *self._sessions.ending()}]
        # Not `asyncio.timeout`, which waits for what it cancels: a setup that blocks a thread is not to be cancelled.
        _, late = await asyncio.wait([*ending, asyncio.create_task(self._ready.end())], timeout=_TEARDOWN_SECONDS)
        if late:
            logger.error("teardown took longer than %.0f s; the server ends without it", _TEARDOWN_SECONDS)

    async def _end_session(self, sid: str) -> None:
        if sid not in self._sessions.ending():
            self._metrics.session_ended("stopped")
        await self._sessions.end(sid)


async def _until(condition: Callable[[], bool], deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


def _check_names(environments: Sequence[type[Environment]]) -> None:
    taken = sorted(OWN_PATHS & {environment.name().lower() for environment in environments})
    if taken:
        raise ValueError(f"an environment cannot be called {taken[0]!r}: that is a path of the server's own")
