"""How long an environment that cannot be reached is waited for, and since when it has been away."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.http import HTTPStatus

T = TypeVar("T")
logger = logging.getLogger(__name__)

ATTEMPTS = 3  # where the environment answers, but with an error of its own
BACKOFF = (0.5, 5.0)  # seconds before the first repetition, and at most
SHORTEST = 0.2  # seconds that must be left for another attempt
SILENT = 3.0  # seconds for which it is tried again without a word


@dataclass
class Health:
    """Whether sessions can be opened: since when (seconds since the epoch) they cannot, and what was said last."""

    down_since: float | None = None
    last_error: str = ""
    task: tuple[str, int] | None = (
        None  # to try again with: the last that could be opened, else the first that could not
    )
    _up_at: float = -math.inf  # monotonic
    _trouble: str | None = None  # what was told of attempts that fail, until one succeeds

    def troubled(self, error: str, start: float) -> None:
        """An attempt has failed, of those since `start` (monotonic), and there will be another. It is told once, not
        for each session that waits."""
        if self._trouble is None and time.monotonic() - max(start, self._up_at) >= SILENT:
            self._trouble = error
            logger.warning("no session can be opened: %s; trying again", error)

    def succeeded(self, task: tuple[str, int] | None) -> None:
        """A session was opened."""
        if self._trouble is not None:
            logger.warning("sessions can be opened again, after: %s", self._trouble)
            self._trouble = None
        self.down_since, self.last_error, self.task, self._up_at = None, "", task, time.monotonic()

    def failed(self, error: str, start: float, task: tuple[str, int] | None) -> None:
        """No session could be opened from `start` (monotonic) until now. Where others were opened meanwhile, it is the
        task that is broken and not the environment."""
        self.last_error = error
        if self._up_at < start and self.down_since is None:
            self.down_since = time.time() - (time.monotonic() - start)
        self.task = self.task or task


def starting_ride_out() -> float:
    """Seconds for which a backend is waited for that says it is still starting, as in the SDK.

    Raises ConfigurationError where the variable that says it holds no such number.
    """
    told = os.environ.get("OPENREWARD_STARTING_RIDE_OUT_S") or "600"
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ConfigurationError(f"OPENREWARD_STARTING_RIDE_OUT_S is a number of seconds, not {told!r}")
    return seconds


async def patiently(
    ask: Callable[[float], Awaitable[T]], health: Health, limit: float, task: tuple[str, int] | None = None
) -> T:
    """What `ask` gives, tried again while that can help; keeps `health` up to date.

    It is tried once where the environment has been away before, so that a run finds out without waiting each time.

    Args:
        ask: Is given its deadline, as the time of the running loop.
        health: Of what is asked.
        task: Split and index of the task that is opened, if it is one.
        limit: Seconds in which it must have succeeded. A backend that says it is starting is waited for longer.

    Raises:
        EnvironmentFailure: the last one, within the limit.
    """
    clock = asyncio.get_running_loop().time
    start, began = clock(), time.monotonic()
    deadline, attempts = start + limit, 0
    while True:
        try:
            answer = await ask(deadline)
        except EnvironmentFailure as failure:
            attempts += 1
            first, longest = BACKOFF
            if failure.starting:
                deadline = max(deadline, start + starting_ride_out())
            left = deadline - clock()
            delay = failure.retry_after or min(first * 2 ** min(attempts - 1, 10), longest, left / 2)
            away = health.down_since is not None and not failure.starting
            if away or _hopeless(failure, attempts) or max(delay, SHORTEST) > left:
                health.failed(str(failure), began, task)
                raise
            health.troubled(str(failure), began)
            await asyncio.sleep(delay)
        else:
            health.succeeded(task)
            return answer


def _hopeless(failure: EnvironmentFailure, attempts: int) -> bool:
    """Whether it was answered in a way that another attempt will not change."""
    unknown = isinstance(failure, HTTPStatus) and failure.gone
    persistent = (failure.kind == "crash" or unknown) and attempts >= ATTEMPTS
    return failure.reached and (failure.kind == "refused" or persistent)
