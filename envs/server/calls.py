"""What clients have environments do passes here: its limits, what its failure may do to the server, its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import HTTPException
from openreward.environments import Environment
from openreward.environments.toolset import Toolset
from openreward.environments.types import JSONObject, RunToolError, RunToolOutput

from envs.server import code, sdk
from envs.server.asgi import retry_later
from envs.server.errors import sendable
from envs.server.metrics import Metrics
from envs.server.settings import Settings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TASK_ERRORS = (ValueError, TypeError, LookupError)  # pydantic's ValidationError is a ValueError
_LONGEST_ERROR = 4000
_own_task: ContextVar[Any] = ContextVar("own_task", default=None)
"""The task that the environment itself gave for the running request: one that it rejects is no client's mistake."""


class Failure(Exception):
    """What a client asked for ended without a result; the text is what the client is told."""


class CutOff(HTTPException):
    """It took too long, or still ran when the server had to end; the text is what the client is told."""

    def __str__(self) -> str:
        return str(self.detail)


class Rejected(HTTPException):
    """An environment does not take a task_spec, which is its client's mistake.

    Args:
        told: what the client is told.
        reason: what the log says.
    """

    def __init__(self, told: str, reason: str) -> None:
        super().__init__(400, told)
        self.reason = reason


@dataclass
class Use:
    """What one session has done so far."""

    calls: int = 0
    running: int = 0


class Calls:
    """Runs environments' code for the SDK's server, in place of its own dispatch."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._running: set[asyncio.Timeout] = set()
        self._stopping = False

    async def __call__(
        self, environment: Environment, toolset: Toolset | None, name: str, arguments: JSONObject
    ) -> RunToolOutput:
        """Run one tool call.

        Raises:
            Failure: the tool raised.
            CutOff: it took too long, or the server had to end.
        """
        use = _use(environment)
        use.calls += 1
        if use.calls > self._settings.max_calls:
            self._metrics.refused("calls")
            return sdk.refused(f"this session has used up its {self._settings.max_calls} tool calls")
        started = time.perf_counter()
        outcome = "error"
        self._metrics.call_started()
        try:
            output = await self._bounded(environment, name, self._tool(environment, toolset, name, arguments))
            outcome = _outcome(output)
            return _shortened(output)
        except CutOff:
            outcome = "timeout"
            raise
        except asyncio.CancelledError as error:
            # Nobody but the tool cancels the task of a call. The SDK would leave the client of a cancelled one waiting
            # for ever.
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            logger.error("%s: %r cancelled its own task", environment.name(), name, exc_info=error)
            raise Failure(self._text("tool", error)) from None
        finally:
            tool = "" if outcome == "not_found" else name
            self._metrics.call_ended(environment.name(), tool, outcome, time.perf_counter() - started)

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run other code of an environment, in the time of a tool call where a client waits for what it returns.

        Raises:
            CutOff: it took too long, or the server had to end.
            Rejected: a constructor did not take the task_spec that a client wrote; whatever else is raised is raised.
        """
        asked = sdk.asked_for(function)
        try:
            if asked is None:
                return await code.run(function, *args, **kwargs)
            result = await self._bounded(*asked, code.run(function, *args, **kwargs))
        except CutOff:
            self._metrics.refused("time")
            raise
        except _TASK_ERRORS as error:
            if not sdk.is_environment(function) or kwargs["task_spec"] is _own_task.get():
                raise
            raise self._rejected(function, error) from error
        if asked[1] == "get_task":
            _own_task.set(result)
        return result

    async def told(self, work: sdk.Work) -> str:
        """Await the work behind an event stream, which tells its client the text of whatever is raised.

        Raises:
            Failure: the work raised.
            CutOff: it took too long, or the server had to end.
        """
        try:
            return await work
        except (Failure, CutOff):
            raise
        except Exception as error:
            logger.exception("an answer could not be made")
            raise Failure(self._text("environment", error)) from None

    def busy(self, environment: Environment) -> bool:
        """Tell whether a client waits for something that this session's environment does."""
        return _use(environment).running > 0

    @property
    def running(self) -> bool:
        """Whether a client waits for anything that an environment does."""
        return bool(self._running)

    def cut_off(self) -> None:
        """Cut off what still runs, because the server has to end."""
        self._stopping = True
        for timeout in self._running:
            with suppress(RuntimeError):  # its own time was up in this very moment
                timeout.reschedule(asyncio.get_running_loop().time())

    async def _bounded(self, owner: Environment | type[Environment], name: str, work: Awaitable[T]) -> T:
        use = _use(owner) if isinstance(owner, Environment) else Use()
        use.running += 1
        timeout = asyncio.timeout(self._settings.call_seconds)
        try:
            async with timeout:
                self._running.add(timeout)
                result = await work
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    await asyncio.sleep(0)  # a task that was cancelled last of all is told so only where it waits
                return result
        except (TimeoutError, asyncio.CancelledError):
            if not timeout.expired():
                raise
            cut_off = self._cut_off(name)
            logger.warning("%s: %s", owner.name(), cut_off)
            raise cut_off from None
        finally:
            self._running.discard(timeout)
            use.running -= 1

    async def _tool(
        self, environment: Environment, toolset: Toolset | None, name: str, arguments: JSONObject
    ) -> RunToolOutput:
        try:
            return await sdk.call_session_tool(environment, toolset, name, arguments)
        except Exception as error:  # the SDK has logged it, with its traceback
            told = self._text("tool", error)
        except SystemExit as error:  # it would end the server
            logger.error("%s: %r ended in SystemExit", environment.name(), name, exc_info=error)
            told = self._text("tool", error)
        raise Failure(told)

    def _rejected(self, environment: type[Environment], error: Exception) -> Rejected:
        reason = f"{type(error).__name__}: {error}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f": {sendable(reason)}" if self._settings.show_errors else "; the reason is in the server's log."
        return Rejected(
            f"The environment rejected the task_spec{told}",
            f"{environment.name()} rejected the task_spec at {Path(place.filename).name}:{place.lineno}: {reason}",
        )

    def _text(self, what: str, error: BaseException) -> str:
        if not self._settings.show_errors:
            return f"the {what} failed; the reason is in the server's log"
        if not isinstance(error, Exception):
            return f"the {what} raised {type(error).__name__}: {error}"
        return sendable(str(error)) or type(error).__name__

    def _cut_off(self, name: str) -> CutOff:
        if self._stopping:
            return CutOff(503, f"{name!r} was cut off: the server is stopping", retry_later())
        seconds = self._settings.call_seconds
        return CutOff(500, f"{name!r} was cut off after {seconds:g} s, the longest that a call may take")


def _use(environment: Environment) -> Use:
    # Kept on the instance, so that it goes when the session goes and needs nothing of the environment's class.
    use: Use = vars(environment).setdefault("_server_use", Use())
    return use


def _shortened(output: RunToolOutput) -> RunToolOutput:
    # The SDK quotes what was wrong with a call, which may be megabytes for the model to read.
    error = output.root
    if not isinstance(error, RunToolError) or len(error.error) <= _LONGEST_ERROR:
        return output
    left_out = len(error.error) - _LONGEST_ERROR
    text = f"{error.error[:_LONGEST_ERROR]}… and {left_out:,} characters more"
    return RunToolOutput(error.model_copy(update={"error": text}))


def _outcome(output: RunToolOutput) -> str:
    if isinstance(output.root, RunToolError):
        return output.root.reason or "error"
    return "success"
