"""`/ready`: whether a session can be opened here now; and `/metrics`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from openreward.environments import Environment
from starlette.types import Receive, Scope, Send

from envs.server import code, sdk
from envs.server.asgi import answer, retry_later, send_bytes
from envs.server.metrics import Metrics
from envs.server.settings import Settings

logger = logging.getLogger(__name__)

_GOOD_FOR_SECONDS = 60.0
_BAD_FOR_SECONDS = 3.0


class Ready:
    """Answers 200 when every environment's tasks can be read and, unless told otherwise, a session can be opened.

    A check's result is kept for a while, so that a probe every second does not open a sandbox every second. A check
    that takes too long is broken off and no longer waited for. What blocks a thread then goes on in the background to
    its end and its session's teardown, and until that is over the environment is not checked again.
    """

    def __init__(self, environments: Sequence[type[Environment]], settings: Settings) -> None:
        self._environments = environments
        self._settings = settings
        self._lock = asyncio.Lock()
        self._checks: dict[type[Environment], asyncio.Task[Exception | None]] = {}
        self._problems: dict[str, Exception] = {}
        self._valid_until = 0.0
        self.stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.stopping:
            async with self._lock:
                if time.monotonic() > self._valid_until:
                    await self._check()
        if self.stopping:
            await answer(scope, send, 503, {"ready": False, "detail": "This server is stopping."}, retry_later())
        elif self._problems:
            detail = "; ".join(f"{name}: {self._told(problem)}" for name, problem in self._problems.items())
            await answer(scope, send, 503, {"ready": False, "detail": detail}, retry_later())
        else:
            await answer(scope, send, 200, {"ready": True})

    async def end(self) -> None:
        """Break off the checks that still run, and wait until they have torn their sessions down."""
        running = list(self._checks.values())
        for check in running:
            _break_off(check)
        if running:
            await asyncio.wait(running)

    async def _check(self) -> None:
        # Side by side: one that hangs must not keep a probe waiting for longer than the time of one.
        found = await asyncio.gather(*(self._problem(environment) for environment in self._environments))
        problems = {
            environment.name(): problem
            for environment, problem in zip(self._environments, found, strict=True)
            if problem is not None
        }
        for name, problem in problems.items():
            if repr(problem) != repr(self._problems.get(name)):
                trace = None if isinstance(problem, _TooSlow) else problem
                logger.warning("%s is not ready: %s", name, problem, exc_info=trace)
        self._problems = problems
        self._valid_until = time.monotonic() + (_BAD_FOR_SECONDS if problems else _GOOD_FOR_SECONDS)

    async def _problem(self, environment: type[Environment]) -> Exception | None:
        check = self._checks.get(environment)
        if check is None:
            check = self._checks[environment] = asyncio.create_task(self._try(environment))
            check.add_done_callback(lambda _: self._checks.pop(environment))
            await asyncio.wait([check], timeout=self._settings.ready_seconds)
            if check.done() and not check.cancelled():
                return check.result()
            _break_off(check)
        return _TooSlow(f"the check did not end within {self._settings.ready_seconds:g} s")

    async def _try(self, environment: type[Environment]) -> Exception | None:
        try:
            split = sdk.splits(environment)[0]
            if await code.run_to_its_end(environment.num_tasks, split) == 0:
                return ValueError(f"split {split!r} has no tasks")
            task = await code.run_to_its_end(environment.get_task, split, 0)
            if self._settings.ready_create:
                session = await code.run_to_its_end(environment, task_spec=task, secrets={})
                try:
                    await code.run_to_its_end(session.setup)
                finally:
                    await code.run_to_its_end(session.teardown)
        except Exception as error:
            return error
        return None

    def _told(self, problem: Exception) -> str:
        if isinstance(problem, _TooSlow):
            return str(problem)
        if not self._settings.show_errors:
            return "the check failed; the reason is in the server's log"
        return f"{type(problem).__name__}: {problem}"


class _TooSlow(Exception):
    pass


def _break_off(check: asyncio.Task[Exception | None]) -> None:
    # Once: the second time would hit its teardown.
    if not check.cancelling():
        check.cancel()


class Exposition:
    """Answers with the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(scope, send, 200, self._metrics.text(), self._metrics.media_type)
