"""Every tool call passes here: its limits, what it may do to the server when it fails, and its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass

from openreward.environments import Environment
from openreward.environments.toolset import Toolset
from openreward.environments.types import JSONObject, RunToolError, RunToolOutput

from envs.server import sdk
from envs.server.metrics import Metrics
from envs.server.settings import Settings

logger = logging.getLogger(__name__)


class ToolFailure(Exception):
    """A tool call ended without a result; the text is what the client is told."""


@dataclass
class Use:
    """What one session has done so far."""

    calls: int = 0
    running: int = 0


class Calls:
    """Runs tool calls for the SDK's server, in place of its own dispatch."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._running: set[asyncio.Timeout] = set()
        self._stopping = False

    async def __call__(
        self, environment: Environment, toolset: Toolset | None, name: str, arguments: JSONObject
    ) -> RunToolOutput:
        """Run one call.

        Raises:
            ToolFailure: the tool raised, took too long, or was cut off by the end of the server.
        """
        use = _use(environment)
        use.calls += 1
        if use.calls > self._settings.max_calls:
            self._metrics.refused("calls")
            return sdk.refused(f"this session has used up its {self._settings.max_calls} tool calls")
        started = time.perf_counter()
        outcome = "error"
        self._metrics.call_started()
        use.running += 1
        try:
            output = await self._bounded(environment, toolset, name, arguments)
            outcome = _outcome(output)
            return output
        except TimeoutError:
            outcome = "timeout"
            text = self._too_late(name)
            logger.warning("%s: %s", environment.name(), text)
            raise ToolFailure(text) from None
        finally:
            use.running -= 1
            tool = "" if outcome == "not_found" else name
            self._metrics.call_ended(environment.name(), tool, outcome, time.perf_counter() - started)

    def busy(self, environment: Environment) -> bool:
        """Tell whether a call of this session is running."""
        return _use(environment).running > 0

    async def finish(self, seconds: float) -> None:
        """Wait for the running calls, and cut off those that still run when the time is up."""
        deadline = time.monotonic() + seconds
        while self._running and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._stopping = True
        for timeout in self._running:
            with suppress(RuntimeError):  # its own time was up in this very moment
                timeout.reschedule(asyncio.get_running_loop().time())
        while self._running and time.monotonic() < deadline + 0.5:
            await asyncio.sleep(0.02)

    async def _bounded(
        self, environment: Environment, toolset: Toolset | None, name: str, arguments: JSONObject
    ) -> RunToolOutput:
        # A cancelled call must not look like one to the SDK, which would leave its client waiting for ever.
        failure: BaseException
        timeout = asyncio.timeout(self._settings.call_seconds)
        try:
            async with timeout:
                self._running.add(timeout)
                return await sdk.call_session_tool(environment, toolset, name, arguments)
        except TimeoutError as error:
            if timeout.expired():
                raise
            failure = error
        except Exception as error:  # the SDK has logged it, with its traceback
            failure = error
        except (SystemExit, asyncio.CancelledError) as error:
            logger.error("%s: %r ended in %s", environment.name(), name, type(error).__name__, exc_info=error)
            failure = error
        finally:
            self._running.discard(timeout)
        raise ToolFailure(self._text(failure)) from None

    def _text(self, error: BaseException) -> str:
        if not self._settings.show_errors:
            return "the tool failed; the reason is in the server's log"
        if not isinstance(error, Exception):
            return f"the tool raised {type(error).__name__}: {error}"
        # Half a surrogate pair cannot be sent; the answer would break off in the middle.
        return str(error).encode(errors="backslashreplace").decode() or type(error).__name__

    def _too_late(self, name: str) -> str:
        if self._stopping:
            return f"{name!r} was cut off: the server is stopping"
        return f"{name!r} was cut off after {self._settings.call_seconds:g} s, the longest that a call may take"


def _use(environment: Environment) -> Use:
    # Kept on the instance, so that it goes when the session goes and needs nothing of the environment's class.
    use: Use = vars(environment).setdefault("_server_use", Use())
    return use


def _outcome(output: RunToolOutput) -> str:
    if isinstance(output.root, RunToolError):
        return output.root.reason or "error"
    return "success"
