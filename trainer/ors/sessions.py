"""Sessions on ORS servers: opened, called, kept alive and closed, on the event loop of `loop`.

This is the only room that knows the openreward SDK. It takes from it what the SDK knows best: the catalog's hosts and
the encoding of secrets. Requests themselves go through `wire`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import ConfigurationError, EnvironmentFailure, ToolRefused
from trainer.ors.http import HTTPStatus, http_client
from trainer.ors.keepalive import Keepalive
from trainer.ors.outcomes import Outcome, blocks_text, outcome
from trainer.ors.patience import Health, patiently, starting_ride_out
from trainer.ors.wire import Wire

T = TypeVar("T")

CLOSE_TIMEOUT = 3.0  # seconds that closing everything may take at exit; the servers' reapers do the rest
DELETING = 300.0
"""Seconds that the end of a session may take, which nobody waits for. Where the main thread keeps the interpreter for
seconds at a time, each turn of the loop takes so long, and a request needs several before it is even sent."""


@dataclass
class Session:
    """One open episode: its id and prompt, when it was opened (monotonic seconds), and why it is gone if it is."""

    sid: str
    prompt: str = ""
    opened: float = 0.0
    gone: str | None = None


@dataclass
class Connection:
    """One environment on one server. Everything here runs on the loop."""

    endpoint: Endpoint
    wire: Wire
    prefix: str  # of paths that belong to the environment: "/echo", or "" for the server's first
    variant: str | None  # the environment's name on the server, None for the server's first
    create_headers: Mapping[str, str]
    keepalive: Keepalive
    close: Callable[[], Awaitable[None]]
    sessions: dict[str, Session] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    finishing: set[asyncio.Task[Any]] = field(default_factory=set)  # see _finish; a loop holds its tasks but weakly
    _slots: AbstractAsyncContextManager[Any] = field(default_factory=nullcontext)
    _closing: AbstractAsyncContextManager[Any] = field(default_factory=nullcontext)

    def __post_init__(self) -> None:
        if (most := self.endpoint.max_concurrency) is not None:
            # Apart, because openings may keep all of theirs while they wait for a session to be closed.
            self._slots, self._closing = asyncio.Semaphore(most), asyncio.Semaphore(most)

    async def open(self, split: str, index: int, *, prompt: bool = True) -> Session:
        """A session on a task, its prompt read if that is wanted, which waits for the task's setup. Retried on a fresh
        session while that can help; raises EnvironmentFailure within `open_timeout`, sooner where the environment has
        been away before."""
        async with self._slots:
            return await patiently(
                lambda deadline: self._open_once(split, index, deadline, prompt),
                self.health,
                self.endpoint.open_timeout,
                (split, index),
            )

    async def probe(self) -> None:
        """See whether a session can be opened now."""
        if self.health.task is not None:
            with suppress(EnvironmentFailure):
                self.close_session(await self.open(*self.health.task))

    async def _open_once(self, split: str, index: int, deadline: float, wants_prompt: bool) -> Session:
        sid, creating = None, None
        try:
            async with asyncio.timeout_at(deadline):
                sid = await self.wire.create_session(self.create_headers)
                body: dict[str, Any] = {"split": split, "index": index}
                if self.variant is not None:
                    body["env_name"] = self.variant
                request = self.wire.request("POST", "/create", sid=sid, body=body, headers=self.create_headers)
                creating = self._finish(request)
                await asyncio.shield(creating)
            session = Session(sid)
            ping = (self.wire.base_url, self.wire.headers, self.endpoint.keepalive)
            await self.keepalive.keep(sid, *ping, partial(self._lose, session))
            if wants_prompt:
                session.prompt = await self._prompt(sid, deadline)
        except BaseException as error:
            if sid is not None:
                self._finish(self._delete(sid, creating))
            if isinstance(error, TimeoutError):
                said = f"{self.wire.name}: no session within {self.endpoint.open_timeout:g} s"
                raise EnvironmentFailure("timeout", said) from None
            raise
        session.opened = time.monotonic()
        self.sessions[sid] = session
        return session

    async def _prompt(self, sid: str, deadline: float) -> str:
        clock = asyncio.get_running_loop().time
        ride_out = clock() + starting_ride_out()
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return blocks_text(await self.wire.request("GET", f"{self.prefix}/prompt", sid=sid))
            except (TypeError, AttributeError):
                said = f"{self.wire.name}: its prompt is not the standard's: no list of blocks"
                raise EnvironmentFailure("crash", said) from None
            except EnvironmentFailure as failure:
                deadline = max(deadline, ride_out)
                pause = failure.retry_after or 2.0
                if not failure.starting or clock() + pause > deadline:
                    raise
                await asyncio.sleep(pause)

    async def call(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run one tool once. Raises ToolRefused for the model's mistakes, EnvironmentFailure for the environment's."""
        if session.gone is not None:
            raise EnvironmentFailure("unreachable", session.gone)
        try:
            json.dumps(dict(arguments), allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            raise ToolRefused("bad_arguments", "The arguments are not valid JSON.") from None
        try:
            async with self._slots, asyncio.timeout(self.endpoint.call_timeout):
                body = {"name": tool, "input": dict(arguments)}
                result = await self.wire.call(f"{self.prefix}/call", session.sid, body)
        except TimeoutError:
            said = f"{self.wire.name}: tool {tool!r} took over {self.endpoint.call_timeout:g} s"
            raise EnvironmentFailure("timeout", said) from None
        except HTTPStatus as status:
            if status.gone:
                raise EnvironmentFailure("unreachable", self._lose(session)) from None
            raise
        return outcome(result, tool, self.wire.name)

    def close_session(self, session: Session) -> None:
        """Begin to tear the session down on the server; what fails here is the server's reaper's to clean up."""
        if self.sessions.pop(session.sid, None) is not None:
            self._finish(self._delete(session.sid))

    async def close_all(self) -> None:
        """Tear down what is open and wait for what is being torn down."""
        for session in list(self.sessions.values()):
            self._finish(self._delete(session.sid))
        self.sessions.clear()
        while self.finishing:
            await asyncio.wait(self.finishing)

    def _finish(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run what must come to its end, whoever asked for it and whether they still wait."""
        task = asyncio.create_task(work)
        self.finishing.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self.finishing.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it where nobody waits any more

    async def _delete(self, sid: str, creating: asyncio.Task[Any] | None = None) -> None:
        """Tear a session down; one that is still being created, after that, or the server would not find it."""
        if creating is not None:
            await asyncio.wait({creating})
        await self.keepalive.drop(sid)
        async with self._closing:
            await self._tear_down(sid)

    async def _tear_down(self, sid: str) -> None:
        with suppress(EnvironmentFailure):
            await self.wire.request("POST", "/delete", sid=sid, repeatable=True, within=DELETING)
            if not self.endpoint.is_url:  # the catalog's hosts hold the id itself too; elsewhere it is nothing
                await self.wire.request("POST", "/delete_session", sid=sid, repeatable=True, within=DELETING)

    def _lose(self, session: Session) -> str:
        session.gone = f"{self.wire.name}: the session is gone: the server was restarted, or closed it as idle"
        return session.gone


def require_sdk() -> None:
    """Raise an ImportError that says what to install where the SDK is missing.

    Importing it takes seconds, for which an environment at a URL has no use unless it is given secrets.
    """
    try:
        found = importlib.util.find_spec("openreward")
    except ImportError:
        found = None
    if found is None:
        raise ImportError(
            "OpenRewardSpec speaks to environments through the openreward package: pip install 'openreward==0.1.167'"
        )


def connect(endpoint: Endpoint, keepalive: Keepalive) -> Callable[[str | None], Connection]:
    """The SDK's client for an endpoint, as a function that makes the connection once the environment's name is known.

    Raises ConfigurationError for a missing key or a secret without domains.
    """
    secrets = _secrets(endpoint)
    if endpoint.is_url:
        # The user's key alone: the SDK's top-level client would fill in the platform's.
        base, api_key, name = endpoint.base_url, endpoint.api_key, endpoint.env_name or "env"
    else:
        base, api_key, name = *_catalog(endpoint, secrets), endpoint.target
    create_headers = _secrets_header(endpoint, secrets) if secrets else {}
    client = http_client(base)
    headers = {"User-Agent": "ors-stack", **dict(endpoint.headers)}
    if api_key:
        headers["X-API-Key"] = api_key

    def make(variant: str | None) -> Connection:
        label = f"{variant or endpoint.env_name or 'environment'} at {endpoint.address}" if endpoint.is_url else name
        headers["X-Deployment"] = (variant or name) if endpoint.is_url else name
        wire = Wire(client, base, headers, label, endpoint.open_timeout + CLOSE_TIMEOUT)
        return Connection(
            endpoint, wire, f"/{variant}" if variant else "", variant, create_headers, keepalive, client.close
        )

    return make


_Secrets = dict[str, str | tuple[str, list[str]]]


def _secrets(endpoint: Endpoint) -> _Secrets:
    """The session secrets; a value that the SDK does not know the domains of may be sent to the server's own host."""
    given: _Secrets = {
        key: value if isinstance(value, str) else (value[0], list(value[1])) for key, value in endpoint.secrets
    }
    if given and endpoint.is_url:
        from openreward.api.sandboxes.secrets import WELL_KNOWN_SECRETS

        host = urlsplit(endpoint.base_url).hostname or ""
        for key, value in given.items():
            if isinstance(value, str) and key not in WELL_KNOWN_SECRETS:
                given[key] = (value, [host])
    return given


def _catalog(endpoint: Endpoint, secrets: _Secrets) -> tuple[str, str]:
    """The catalog's session host and the key for it, which is added to the secrets as the SDK does."""
    api_key = endpoint.api_key or os.environ.get("OPENREWARD_API_KEY")
    if not api_key:
        raise ConfigurationError(
            f"{endpoint.target!r} is in the catalog, which needs a key: set OPENREWARD_API_KEY or give api_key="
        )
    from openreward import AsyncOpenReward
    from openreward.api.sandboxes.secrets import augment_secrets_with_api_key

    os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
    platform = AsyncOpenReward(api_key=api_key)
    hosts = {"base_url": platform.session_base_url, "api_base_url": platform.base_url}
    secrets.update(augment_secrets_with_api_key(secrets, api_key, **hosts) or {})
    return platform.session_base_url, api_key


def _secrets_header(endpoint: Endpoint, secrets: _Secrets) -> dict[str, str]:
    from openreward.api.sandboxes.secrets import build_secrets_header

    try:
        return {"X-Secrets": build_secrets_header(secrets)}
    except ValueError as error:
        raise ConfigurationError(f"secrets for {endpoint.target!r}: {error}") from None
