"""The protocol's three kinds of request, exactly: a plain one, a new session id, and a resumable tool call.

The SDK's own reader strips white space at the border of every 4,096-character chunk and re-sends a call that has no
task id yet, so that a tool can run twice. This one keeps every byte and repeats a call only when it cannot have run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

import aiohttp

from trainer.ors import sse
from trainer.ors.errors import EnvironmentFailure
from trainer.ors.http import CONNECT, Exchange, HTTPStatus, say

HEARTBEAT = 30.0  # seconds of silence after which a stream counts as broken; servers send a comment every 10
RECONNECTS = 5  # in a row, as many as the SDK allows
LASTED = 5.0  # seconds after which a stream that breaks was a working one, so that a long call may break often
BACKOFF = (0.25, 4.0)  # seconds before the first repetition, and at most


class _Forgotten(EnvironmentFailure):
    """The server does not know a call any more that it had begun."""


class Wire:
    """Requests to one server.

    Args:
        client: An HTTP session, whose pool is shared by all requests to this server.
        base_url: Scheme, host and perhaps a path prefix.
        headers: Sent with every request, to this host and to no other.
        name: What to call the server in messages.
        patience: Seconds in which a plain request must be answered.
    """

    def __init__(
        self,
        client: aiohttp.ClientSession,
        base_url: str,
        headers: Mapping[str, str],
        name: str,
        patience: float = 120.0,
    ) -> None:
        self._client = client
        self.base_url = base_url.rstrip("/")
        self.headers = dict(headers)
        self._patience = patience
        self.name = name

    async def request(
        self,
        method: str,
        path: str,
        *,
        sid: str | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        within: float | None = None,
    ) -> Any:
        """The JSON that the server answers. Raises EnvironmentFailure, with `HTTPStatus` where it answered at all.

        It has `patience`, of which a connection may take `CONNECT`; or `within`, of which a connection may take all.

        What is `repeatable` is sent once more where the connection is lost: the server may have closed it as idle in
        the very moment. (A GET is repeated by the HTTP client itself.)
        """
        try:
            return await self._answer(method, path, sid, body, headers, within)
        except EnvironmentFailure as failure:
            lost = failure.kind == "unreachable" and failure.reached and not isinstance(failure, HTTPStatus)
            if not (repeatable and lost):
                raise
        return await self._answer(method, path, sid, body, headers, within)

    async def _answer(
        self,
        method: str,
        path: str,
        sid: str | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        within: float | None,
    ) -> Any:
        limit, connect = (self._patience, CONNECT) if within is None else (within, None)
        try:
            async with (
                asyncio.timeout(limit),
                self._exchange(method, path, sid, body, headers or {}, None, connect) as response,
            ):
                return json.loads(await response.read() or b"null")
        except TimeoutError:
            said = f"{self.name}: {method} {path}: no answer within {limit:g} s"
            raise EnvironmentFailure("timeout", said) from None
        except (aiohttp.ClientError, OSError) as error:
            raise EnvironmentFailure("unreachable", f"{self.name}: connection lost: {say(error)}") from None
        except (ValueError, RecursionError):
            said = f"{self.name}: {method} {path} answered with something that is no JSON"
            raise EnvironmentFailure("crash", said) from None

    async def create_session(self, headers: Mapping[str, str] | None = None) -> str:
        """A new session id."""
        sid = None
        async with aclosing(self._events("/create_session", None, {}, headers or {})) as events:
            async for event in events:
                if event.name == "task_id":
                    sid = event.data.strip()
                elif event.name == "error":
                    raise EnvironmentFailure("crash", f"{self.name}: no session: {_one_line(event.data)}")
        if not sid:
            raise EnvironmentFailure("unreachable", f"{self.name}: /create_session ended without a session id")
        return sid

    async def call(self, path: str, sid: str, body: Mapping[str, Any]) -> Any:
        """The JSON result of a call that the server runs as a resumable task. The caller sets the deadline.

        A connection that breaks after the task id came is taken up again by that id. Before that, the call is sent
        again only where the request cannot have reached the environment: a connection that was refused, or closed
        before the first byte, or a gateway that says the backend is still starting or asks to wait.
        """
        resume: dict[str, str] = {}
        failed = 0
        while True:
            began = time.monotonic()
            try:
                return await self._call_once(path, sid, body, resume)
            except EnvironmentFailure as failure:
                if not (_resumable(failure) if resume else not failure.reached):
                    raise
                asked_to_wait = isinstance(failure, HTTPStatus) and not failure.reached
                if not asked_to_wait:
                    failed = 1 if time.monotonic() - began > LASTED else failed + 1
                if failed > RECONNECTS:
                    raise
                first, longest = BACKOFF
                await asyncio.sleep(failure.retry_after or min(first * 2 ** max(failed - 1, 0), longest))

    async def _call_once(self, path: str, sid: str, body: Mapping[str, Any], resume: dict[str, str]) -> Any:
        parts: list[str] = []
        size, ended, resumed = 0, False, bool(resume)
        async with aclosing(self._events(path, sid, {**body, **resume}, {})) as events:
            async for event in events:
                if event.name == "task_id":
                    resume["task_id"] = event.data.strip()
                elif event.name == "error":
                    if resumed and event.data.strip() == "unknown task_id":
                        said = "the server does not know the call any more: it was restarted, or kept it long enough"
                        raise _Forgotten("unreachable", f"{self.name}: {said}")
                    raise EnvironmentFailure("crash", f"{self.name}: {path}: {_one_line(event.data)}")
                elif event.name in ("chunk", "end"):
                    parts.append(event.data)
                    size += len(event.data)
                    ended = ended or event.name == "end"
                if size > sse.MAX_EVENT_BYTES:
                    raise EnvironmentFailure("crash", f"{self.name}: a result of over {sse.MAX_EVENT_BYTES} bytes")
        if not ended:
            raise EnvironmentFailure("unreachable", f"{self.name}: the stream of a tool call ended early")
        try:
            return json.loads("".join(parts))
        except (ValueError, RecursionError):
            raise EnvironmentFailure("crash", f"{self.name}: a tool's result is no JSON") from None

    async def _events(
        self, path: str, sid: str | None, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncGenerator[sse.Event]:
        reader = sse.EventReader()
        accept = {"Accept": "text/event-stream", **headers}
        async with self._exchange("POST", path, sid, body, accept, HEARTBEAT) as response:
            try:
                async for data in response.content.iter_any():
                    events = reader.feed(data)
                    for event in events:
                        yield event
                    if any(event.name in ("end", "error") for event in events):
                        # What is left is the end of the body. Once read, the connection can serve the next request;
                        # where it breaks instead, the answer is no less whole.
                        with suppress(TimeoutError, aiohttp.ClientError, OSError):
                            async with asyncio.timeout(0.25):
                                await response.content.readany()
                        return
            except ValueError as error:
                raise EnvironmentFailure("crash", f"{self.name}: {path} sent {error}") from None
            except TimeoutError:
                raise EnvironmentFailure("timeout", f"{self.name}: nothing heard for {HEARTBEAT:g} s") from None
            except (aiohttp.ClientError, OSError) as error:
                raise EnvironmentFailure("unreachable", f"{self.name}: connection lost: {say(error)}") from None

    def _exchange(
        self,
        method: str,
        path: str,
        sid: str | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        silence: float | None,
        connect: float | None = CONNECT,
    ) -> Exchange:
        every = {**self.headers, **headers}
        if sid is not None:
            every["X-Session-ID"] = sid
        return Exchange(self._client, self.name, method, self.base_url + path, every, body, silence, connect)


def _resumable(failure: EnvironmentFailure) -> bool:
    """Whether a call that has a task id may be taken up again: not where the server knows the session no more."""
    gone = isinstance(failure, _Forgotten) or (isinstance(failure, HTTPStatus) and failure.gone)
    return failure.kind in ("unreachable", "timeout") and not gone


def _one_line(text: str) -> str:
    return " ".join(text[:2000].split()) or "it failed without a message"
