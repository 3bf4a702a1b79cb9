"""What this server knows of the SDK's private parts, all of it, so that an upgrade is checked in one place.

`tests/envs/test_server_sdk.py` names every part that is used here and fails when one of them has moved.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, KeysView, Sequence
from typing import Any, TypeGuard

from fastapi import FastAPI, HTTPException
from openreward.environments import Environment, server, session
from openreward.environments import environment as environment_module
from openreward.environments.reconnect import CHUNK_SIZE as CHUNK_SIZE
from openreward.environments.reconnect import LINGER_SECONDS as LINGER_SECONDS
from openreward.environments.server import Server
from openreward.environments.toolset import Toolset
from openreward.environments.types import JSONObject, RunToolError, RunToolOutput
from openreward.environments.utils import run_user_callable as run_user_callable
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import Request
from starlette.types import Scope

from envs.server.asgi import header
from envs.server.errors import sendable
from envs.server.stream import EventStream

Call = Callable[[Environment, Toolset | None, str, JSONObject], Awaitable[RunToolOutput]]
Work = Coroutine[Any, Any, str]
Stream = Callable[..., AsyncGenerator[dict[str, Any], None]]
call_session_tool: Call = session.call_session_tool
delete_session = server._delete_session
introspect_tool = environment_module._introspect_tool

_introspected: weakref.WeakKeyDictionary[Any, tuple[dict[str, Any], list[inspect.Parameter]]] = (
    weakref.WeakKeyDictionary()
)

_LOGGING_MODULES = (server, environment_module, session)
_BUSY_ROUTES = ("/{env_name}/call", "/ping", "/create", "/{env_name}/prompt", "/delete")
_ASKED_FOR = (
    "get_prompt",
    "get_messages",
    "score_group",
    "list_task_tools",
    "list_tasks",
    "num_tasks",
    "get_task",
    "get_task_range",
)


class Sessions:
    """The sessions of one SDK server, which keeps them in private dictionaries by session id.

    Args:
        sdk_server: the server.
        show_errors: tell clients the text of what a setup raised.
        ended: is given the id of every session once it has been torn down.
    """

    def __init__(self, sdk_server: Server, *, show_errors: bool, ended: Callable[[str], None]) -> None:
        self._server = sdk_server
        self._ended = ended
        self._ending: dict[str, asyncio.Event] = {}
        vars(server)["_delete_session"] = self._delete
        sdk_server._setup_errors = _SetupErrors(show_errors)

    def __len__(self) -> int:
        """Count the sessions that are open, and those that are being torn down: what they use is still in use."""
        active = self._server._active_envs
        return len(active) + sum(sid not in active for sid in self._ending)

    def __contains__(self, sid: str) -> bool:
        return sid in self._server._active_envs

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._server._active_envs))

    def environment(self, sid: str) -> Environment | None:
        """Return the environment of a session, None where there is no such session."""
        return self._server._active_envs.get(sid)

    def idle(self, seconds: float) -> list[str]:
        """Return the sessions that nobody has asked for in so many seconds."""
        before = time.monotonic() - seconds
        return [sid for sid, last in self._server._last_ping.items() if last < before and sid in self]

    def forget_strangers(self) -> None:
        """Drop what the SDK notes about ids that are no sessions, an entry for every unknown id it is asked for."""
        for sid in [sid for sid in self._server._last_ping if sid not in self]:
            del self._server._last_ping[sid]

    def touch(self, sid: str) -> None:
        """Count a session as used now."""
        self._server._last_ping[sid] = time.monotonic()

    async def end(self, sid: str) -> None:
        """Tear a session down as the SDK's `/delete` does; its teardown's exception goes to the log."""
        own = self._server
        await self._delete(
            sid,
            own._active_envs,
            own._active_toolsets,
            own._last_ping,
            own._setup_tasks,
            own._ready,
            own._setup_errors,
        )

    def ending(self) -> KeysView[str]:
        """Return the ids of the sessions that are being torn down."""
        return self._ending.keys()

    async def _delete(self, sid: str, *dictionaries: Any) -> None:
        if sid in self._ending:  # twice at once, a teardown would run beside the setup that the first one waits for
            await self._ending[sid].wait()
            return
        over = self._ending[sid] = asyncio.Event()
        try:
            await delete_session(sid, *dictionaries)
        finally:
            del self._ending[sid]
            over.set()
            self._ended(sid)

    def stop_sdk_reaper(self) -> None:
        """End the SDK's own reaper, whose 900 seconds cannot be set; called once the SDK's app has started."""
        if self._server._reaper_task is not None:
            self._server._reaper_task.cancel()


class _SetupErrors(dict[str, Any]):
    """How the setups of sessions failed, which is told to every request that such a session gets.

    The SDK raises what it finds here. One exception raised again and again would keep everything that those requests
    held, and the log would tell all of it for each of them; so each gets one of its own, without the setup's traceback,
    which the log has by then.
    """

    def __init__(self, show_errors: bool) -> None:
        super().__init__()
        self._show_errors = show_errors

    def __setitem__(self, sid: str, error: Exception) -> None:
        if isinstance(error, AnyHTTPException):
            told = error.status_code, error.detail, error.headers
        else:
            text = sendable(f"{type(error).__name__}: {error}") if self._show_errors else "Internal Server Error"
            told = 500, text, None
        super().__setitem__(sid, told)

    def get(self, sid: str, default: Any = None) -> Any:
        told = super().get(sid)
        return default if told is None else HTTPException(*told)


def intercept_calls(call: Call, run: Callable[..., Awaitable[Any]], stream: Stream) -> None:
    """Have what the SDK runs of an environment pass through here.

    Args:
        call: in place of `call_session_tool`, to which it passes every tool call on.
        run: in place of `run_user_callable`, for everything else.
        stream: in place of `sse_task_stream`, for the events of whatever a client may come back for.
    """
    vars(server)["call_session_tool"] = call
    vars(server)["run_user_callable"] = vars(session)["run_user_callable"] = run
    vars(server)["sse_task_stream"] = stream


def asked_for(function: Callable[..., Any]) -> tuple[Environment | type[Environment], str] | None:
    """Return whose method a function is, and its name, if a client waits for what it returns.

    None for what opens or ends a session, which may take long. The name is the one that the SDK asks for, whatever a
    decorator has made of the function's own.
    """
    owner = getattr(function, "__self__", None)
    name = next((name for name in _ASKED_FOR if getattr(owner, name, None) == function), None)
    return (owner, name) if owner is not None and name else None


def is_environment(function: Callable[..., Any]) -> TypeGuard[type[Environment]]:
    """Tell whether what is run is an environment's constructor, which is given its `task_spec` by name."""
    return isinstance(function, type) and issubclass(function, Environment)


def spare_work(application: FastAPI) -> None:
    """Have the SDK answer the same with less work.

    A tool's signature is looked at once, a stream needs no helper tasks, and the routes that are asked for most are
    tried first: no two of the SDK's routes match one path.
    """
    vars(server)["EventSourceResponse"] = EventStream
    vars(environment_module)["_introspect_tool"] = _introspect_tool
    application.router.routes.sort(key=lambda route: getattr(route, "path", "") not in _BUSY_ROUTES)


def use_logger(make: Callable[[str], Any]) -> None:
    """Replace the loggers that the SDK's server modules made when they were imported."""
    for module in _LOGGING_MODULES:
        vars(module)["logger"] = make(module.__name__)


def refused(error: str) -> RunToolOutput:
    """Return the protocol's answer to a call that comes after the end of its episode."""
    return RunToolOutput(RunToolError(reason="episode_finished", error=error))


def session_id(scope: Scope) -> str:
    """Return the id of a request's session, read as the SDK reads it; "" where it has none."""
    return (header(scope, b"x-session-id") or b"").decode("latin-1").strip()


def secrets(scope: Scope) -> dict[str, Any]:
    """Return a request's secrets by name, read as the SDK reads them; raises whatever that raises."""
    parsed: dict[str, Any] = server._parse_secrets_header(Request(scope))
    return parsed


def splits(environment: type[Environment]) -> Sequence[str]:
    """Return the names of an environment's splits."""
    return [server._convert_to_split(split).name for split in environment._list_splits_cached()]


def _introspect_tool(tool: Callable[..., Any]) -> tuple[Any, dict[str, Any], list[inspect.Parameter]]:
    # By function and weakly: a bound method, or a function made for one session, must not outlive the session here.
    function = getattr(tool, "__func__", tool)
    known = _introspected.get(function)
    if known is None:
        _, hints, parameters = introspect_tool(tool)
        known = _introspected[function] = (hints, parameters)
    return tool, *known
