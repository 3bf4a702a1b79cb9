"""Sessions on ORS servers: opened, called, kept alive and closed, on the event loop of `loop`.

This is the only room that knows the openreward SDK. It takes from it what the SDK knows best: the catalog's hosts and
the encoding of secrets. Requests themselves go through `wire`.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import ConfigurationError, EnvironmentFailure, ModelError, ToolRefused
from trainer.ors.wire import HTTPStatus, Wire, http_client

CLOSE_TIMEOUT = 3.0  # seconds that closing everything may take at exit; the servers' reapers do the rest
_REFUSALS: dict[str, ModelError] = {
    "not_found": "unknown_tool",
    "input_validation": "bad_arguments",
    "bad_input_shape": "bad_arguments",
    "episode_finished": "after_end",
}


@dataclass(frozen=True)
class Outcome:
    """What one tool call gave: the text for the model, the reward (None: not scored), whether the episode is over."""

    text: str
    reward: float | None
    finished: bool
    metadata: dict[str, Any] | None


@dataclass
class Session:
    """One open episode: its id and prompt, when it was opened and when the server last heard of it (monotonic seconds),
    and why it is gone if it is."""

    sid: str
    prompt: str
    opened: float
    last_used: float
    gone: str | None = None


@dataclass
class Health:
    """Whether sessions can be opened: since when (seconds since the epoch) they cannot, and what was said last."""

    down_since: float | None = None
    last_error: str = ""
    task: tuple[str, int] | None = (
        None  # to try again with: the last that could be opened, or else the last that could not
    )
    _up_at: float = -math.inf  # monotonic

    def succeeded(self, task: tuple[str, int]) -> None:
        """A session was opened."""
        self.down_since, self.task, self._up_at = None, task, time.monotonic()

    def failed(self, error: str, start: float, task: tuple[str, int]) -> None:
        """No session could be opened from `start` (monotonic) until now. Where others were opened meanwhile, it is the
        task that is broken and not the environment."""
        self.last_error = error
        if self._up_at < start and self.down_since is None:
            self.down_since = time.time() - (time.monotonic() - start)
        self.task = self.task or task


@dataclass
class Connection:
    """One environment on one server. Everything here runs on the loop."""

    endpoint: Endpoint
    wire: Wire
    prefix: str  # of paths that belong to the environment: "/echo", or "" for the server's first
    variant: str | None  # the environment's name on the server, None for the server's first
    create_headers: Mapping[str, str]
    close: Callable[[], Awaitable[None]]
    sessions: dict[str, Session] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    _slots: asyncio.Semaphore | None = None
    _deletions: set[asyncio.Task[None]] = field(default_factory=set)  # a loop holds its tasks but weakly
    _keeper: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        if self.endpoint.max_concurrency is not None:
            self._slots = asyncio.Semaphore(self.endpoint.max_concurrency)

    async def open(self, split: str, index: int) -> Session:
        """A session on a task, its prompt read. Retried on a fresh session while that can help; raises
        EnvironmentFailure within `open_timeout`, sooner where the environment has been away for as long before."""
        start = time.monotonic()
        patience = self.endpoint.open_timeout if self.health.down_since is None else 0.0
        attempt = 0
        while True:
            try:
                async with AsyncExitStack() as stack:
                    if self._slots is not None:
                        await stack.enter_async_context(self._slots)
                    session = await self._open_once(split, index)
                self.health.succeeded((split, index))
                return session
            except EnvironmentFailure as failure:
                attempt += 1
                waited = time.monotonic() - start
                delay = failure.retry_after or min(0.5 * 2 ** (attempt - 1), 5.0)
                limit = max(patience, _starting_ride_out()) if failure.starting else patience
                hopeless = failure.reached and (failure.kind == "refused" or (failure.kind == "crash" and attempt >= 3))
                if hopeless or waited + delay > limit:
                    self.health.failed(str(failure), start, (split, index))
                    raise
                await asyncio.sleep(delay)

    async def probe(self) -> None:
        """See whether a session can be opened now."""
        if self.health.task is not None:
            with suppress(EnvironmentFailure):
                await self.close_session(await self.open(*self.health.task))

    async def _open_once(self, split: str, index: int) -> Session:
        sid = None
        try:
            async with asyncio.timeout(self.endpoint.open_timeout):
                sid = await self.wire.create_session(self.create_headers)
                body: dict[str, Any] = {"split": split, "index": index}
                if self.variant is not None:
                    body["env_name"] = self.variant
                await self.wire.request("POST", "/create", sid=sid, body=body, headers=self.create_headers)
            prompt = await self._prompt(sid)
        except BaseException as error:
            if sid is not None:
                self._later(self._delete(sid))
            if isinstance(error, TimeoutError):
                said = f"{self.wire.name}: no session within {self.endpoint.open_timeout:g} s"
                raise EnvironmentFailure("timeout", said) from None
            raise
        now = time.monotonic()
        session = self.sessions[sid] = Session(sid, prompt, now, now)
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_alive())
        return session

    async def _prompt(self, sid: str) -> str:
        start = time.monotonic()
        while True:
            try:
                async with asyncio.timeout(self.endpoint.open_timeout):
                    return blocks_text(await self.wire.request("GET", f"{self.prefix}/prompt", sid=sid))
            except EnvironmentFailure as failure:
                if not failure.starting or time.monotonic() - start > _starting_ride_out():
                    raise
                await asyncio.sleep(failure.retry_after or 2.0)

    async def call(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run one tool once. Raises ToolRefused for the model's mistakes, EnvironmentFailure for the environment's."""
        if session.gone is not None:
            raise EnvironmentFailure("unreachable", session.gone)
        try:
            json.dumps(arguments, allow_nan=False)
        except ValueError:
            raise ToolRefused("bad_arguments", "The arguments are not valid JSON.") from None
        try:
            async with AsyncExitStack() as stack:
                if self._slots is not None:
                    await stack.enter_async_context(self._slots)
                async with asyncio.timeout(self.endpoint.call_timeout):
                    body = {"name": tool, "input": dict(arguments)}
                    result = await self.wire.call(f"{self.prefix}/call", session.sid, body)
        except TimeoutError:
            said = f"{self.wire.name}: tool {tool!r} took over {self.endpoint.call_timeout:g} s"
            raise EnvironmentFailure("timeout", said) from None
        except HTTPStatus as status:
            if status.status in (404, 410):
                session.gone = f"{self.wire.name}: the session is gone: the server was restarted, or closed it as idle"
                raise EnvironmentFailure("unreachable", session.gone) from None
            raise
        finally:
            session.last_used = time.monotonic()
        return _outcome(result, tool, self.wire.name)

    async def close_session(self, session: Session) -> None:
        """Tear the session down on the server; what fails here is the server's reaper's to clean up."""
        if self.sessions.pop(session.sid, None) is not None:
            await self._delete(session.sid)

    async def close_all(self) -> None:
        """Tear down what is open and wait for what is being torn down."""
        await asyncio.gather(*(self.close_session(session) for session in list(self.sessions.values())))
        await asyncio.gather(*self._deletions, return_exceptions=True)

    def _later(self, deletion: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(deletion)
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def _delete(self, sid: str) -> None:
        with suppress(EnvironmentFailure, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.wire.request("POST", "/delete", sid=sid)
                if not self.endpoint.is_url:  # the catalog's hosts hold the id itself too; elsewhere it is nothing
                    await self.wire.request("POST", "/delete_session", sid=sid)

    async def _keep_alive(self) -> None:
        while self.sessions:
            await asyncio.sleep(self.endpoint.keepalive / 3)
            now = time.monotonic()
            idle = [s for s in self.sessions.values() if now - s.last_used >= self.endpoint.keepalive / 2]
            await asyncio.gather(*(self._ping(session) for session in idle))

    async def _ping(self, session: Session) -> None:
        session.last_used = time.monotonic()
        try:
            async with asyncio.timeout(30):
                await self.wire.request("POST", "/ping", sid=session.sid)
        except HTTPStatus as status:
            if status.status in (404, 410):
                session.gone = f"{self.wire.name}: the session is gone: the server was restarted, or closed it as idle"
        except (EnvironmentFailure, TimeoutError):
            pass  # the next call says what is wrong, to someone who can act on it


def blocks_text(blocks: Any) -> str:
    """The text of a prompt or a result: text blocks joined by line breaks; what is not text leaves a note."""
    parts = []
    for block in blocks or []:
        if block.get("type") == "text":
            if block.get("text"):
                parts.append(str(block["text"]))
        else:
            parts.append(f"[{block.get('mimeType') or block.get('type')}: not shown, this trainer reads text]")
    return "\n".join(parts)


def _outcome(result: Any, tool: str, name: str) -> Outcome:
    try:
        if not result["ok"]:
            text = str(result["error"])
            reason = result.get("reason") or ("input_validation" if "validation" in text.lower() else "not_found")
            if reason not in _REFUSALS:
                raise EnvironmentFailure("crash", f"{name}: tool {tool!r}: {text}")
            raise ToolRefused(_REFUSALS[reason], text)
        output = result["output"]
        reward, metadata = output.get("reward"), output.get("metadata")
        score = float(reward) if isinstance(reward, int | float) and math.isfinite(reward) else None
        text = blocks_text(output.get("blocks")) or "(no output)"
        return Outcome(text, score, bool(output.get("finished")), metadata if isinstance(metadata, dict) else None)
    except (KeyError, TypeError, AttributeError):
        raise EnvironmentFailure("crash", f"{name}: tool {tool!r} answered outside the standard") from None


def _starting_ride_out() -> float:
    return float(os.environ.get("OPENREWARD_STARTING_RIDE_OUT_S", "600"))


def connect(endpoint: Endpoint) -> Callable[[str | None], Connection]:
    """The SDK's client for an endpoint, as a function that makes the connection once the environment's name is known.

    Raises ConfigurationError for a missing key or a secret without domains, ImportError without the SDK.
    """
    try:
        from openreward.api.sandboxes import secrets as sdk_secrets
    except ImportError as error:
        raise ImportError(
            "OpenRewardSpec speaks to environments through the openreward package: pip install 'openreward==0.1.167'"
        ) from error

    secrets: dict[str, str | tuple[str, list[str]]] = {
        key: value if isinstance(value, str) else (value[0], list(value[1])) for key, value in endpoint.secrets
    }
    if endpoint.is_url:
        # The user's key alone: the SDK's top-level client would fill in the platform's.
        base, api_key, name = endpoint.base_url, endpoint.api_key, endpoint.env_name or "env"
        host = urlsplit(base).hostname or ""
        for key, value in secrets.items():
            if isinstance(value, str) and key not in sdk_secrets.WELL_KNOWN_SECRETS:
                secrets[key] = (value, [host])
    else:
        from openreward import AsyncOpenReward

        os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
        api_key, name = endpoint.api_key or os.environ.get("OPENREWARD_API_KEY"), endpoint.target
        if not api_key:
            raise ConfigurationError(
                f"{endpoint.target!r} is in the catalog, which needs a key: set OPENREWARD_API_KEY or give api_key="
            )
        platform = AsyncOpenReward(api_key=api_key)
        base = platform.session_base_url
        hosts = {"base_url": base, "api_base_url": platform.base_url}
        secrets = sdk_secrets.augment_secrets_with_api_key(secrets, api_key, **hosts) or {}
    try:
        create_headers = {"X-Secrets": sdk_secrets.build_secrets_header(secrets)} if secrets else {}
    except ValueError as error:
        raise ConfigurationError(f"secrets for {endpoint.target!r}: {error}") from None

    client = http_client(base)
    headers = {"User-Agent": "ors-stack", **dict(endpoint.headers)}
    if api_key:
        headers["X-API-Key"] = api_key

    def make(variant: str | None) -> Connection:
        label = f"{variant or endpoint.env_name or 'environment'} at {endpoint.address}" if endpoint.is_url else name
        headers["X-Deployment"] = variant or name
        wire = Wire(client, base, headers, label)
        return Connection(endpoint, wire, f"/{variant}" if variant else "", variant, create_headers, client.close)

    return make
