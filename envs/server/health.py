"""`/ready`: whether a session can be opened here now; and `/metrics`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from openreward.environments import Environment
from starlette.types import Receive, Scope, Send

from envs.server import sdk
from envs.server.asgi import answer, retry_later, send_bytes
from envs.server.metrics import Metrics

_CHECK_SECONDS = 30.0
_GOOD_FOR_SECONDS = 60.0
_BAD_FOR_SECONDS = 3.0


class Ready:
    """Answers 200 when every environment's tasks can be read and, unless told otherwise, a session can be opened.

    A check's result is kept for a while, so that a probe every second does not open a sandbox every second.
    """

    def __init__(self, environments: Sequence[type[Environment]], create: bool) -> None:
        self._environments = environments
        self._create = create
        self._lock = asyncio.Lock()
        self._problems: dict[str, str] = {}
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
            detail = "; ".join(f"{name}: {problem}" for name, problem in self._problems.items())
            await answer(scope, send, 503, {"ready": False, "detail": detail}, retry_later())
        else:
            await answer(scope, send, 200, {"ready": True})

    async def _check(self) -> None:
        problems = {}
        for environment in self._environments:
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._try(environment)
            except Exception as error:
                problems[environment.name()] = f"{type(error).__name__}: {error}"
        self._problems = problems
        self._valid_until = time.monotonic() + (_BAD_FOR_SECONDS if problems else _GOOD_FOR_SECONDS)

    async def _try(self, environment: type[Environment]) -> None:
        split = sdk.splits(environment)[0]
        if await sdk.run(environment.num_tasks, split) == 0:
            raise ValueError(f"split {split!r} has no tasks")
        task = await sdk.run(environment.get_task, split, 0)
        if self._create:
            session = await sdk.run(environment, task_spec=task, secrets={})
            try:
                await sdk.run(session.setup)
            finally:
                await sdk.run(session.teardown)


class Exposition:
    """Answers with the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(scope, send, 200, self._metrics.text(), self._metrics.media_type)
