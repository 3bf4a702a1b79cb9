"""Requests and events as they are on the wire. The SDK's client is not used: its quirks would hide faults."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import httpx2

from envs.check.headers import secrets
from envs.check.limits import Limits
from envs.check.rule import Evidence, Failed, printable
from envs.check.sse import Event, Parser

_SHOWN = 400
_LOOPBACK = {"127.0.0.1", "localhost", "::1", "0.0.0.0"}
_ENDINGS = {"end", "error"}


# What the request that a task sent last was, and what came back: the evidence where reading an answer fails.
_last: ContextVar[Evidence | None] = ContextVar("last", default=None)


def last_evidence() -> Evidence | None:
    """Return the last exchange of the running task."""
    return _last.get()


def decoded(text: str | bytes) -> Any:
    """Return what a JSON text says, None where it is no JSON, or deeper than can be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    sent: str
    status: int
    headers: httpx2.Headers
    body: bytes
    got: str

    def json(self) -> Any:
        """Return the body as JSON, None where it is no JSON."""
        return decoded(self.body)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.sent, self.got)

    def failed(self, why: str = "") -> Failed:
        """Return the failure to raise for this answer."""
        return Failed(self.sent, f"{why}: {self.got}" if why else self.got)


@dataclass(frozen=True)
class Stream(Exchange):
    """An answer that came as events.

    Args:
        silence: the longest time in seconds in which no byte arrived.
        seconds: from the request to the last event.
        complete: an `end` or `error` event arrived.
    """

    events: tuple[Event, ...]
    comments: int
    silence: float
    seconds: float
    complete: bool

    @property
    def task_id(self) -> str | None:
        return next((event.data for event in self.events if event.name == "task_id"), None)

    @property
    def result(self) -> str:
        return "".join(event.data for event in self.events if event.name in ("chunk", "end"))

    @property
    def error(self) -> str | None:
        return next((event.data for event in self.events if event.name == "error"), None)


class Wire:
    """One server, by its URL. Never follows a redirect, so that keys and headers go nowhere else."""

    def __init__(self, url: str, api_key: str | None, limits: Limits, headers: Mapping[str, str] | None = None) -> None:
        self.limits = limits
        self.api_key = api_key
        parts = urlsplit(url)
        # What is between "//" and "@" is a password: it is sent, never shown.
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._secrets = _spellings(
            [api_key or "", *_of_url(parts), *(one for value in (headers or {}).values() for one in secrets(value))]
        )
        self._client = httpx2.AsyncClient(
            base_url=url.rstrip("/"),
            timeout=limits.answer,
            # A proxy for the outside world would swallow an address of this machine.
            trust_env=parts.hostname not in _LOOPBACK,
            headers={"user-agent": "ors-env-check", **(headers or {})},
            limits=httpx2.Limits(max_connections=2 * limits.parallel),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        session: str | None = None,
        raw: bytes | None = None,
        key: str | None = "",
    ) -> Exchange:
        """Send one request and read the whole answer.

        Args:
            body: sent as JSON; None sends no body.
            raw: sent as it is, labelled as JSON.
            key: the API key; None sends none, "" the one the check was given.

        Raises:
            Failed: no answer in time, or one that is too large.
        """
        sent = self._sent(method, path, body, raw)
        _last.set(Evidence(sent, "nothing"))
        try:
            async with (
                asyncio.timeout(self.limits.answer),
                self._client.stream(
                    method, path, content=_content(body, raw), headers=self._headers(session, key)
                ) as response,
            ):
                received = await self._read(response, sent)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise Failed(sent, self.clean(f"no answer: {_reason(error, self.limits.answer)}")) from error
        got = self.clean(f"{response.status_code} {_text(received)}".rstrip())
        _last.set(Evidence(sent, got))
        return Exchange(sent, response.status_code, response.headers, received, got)

    async def stream(
        self,
        path: str,
        body: Any = None,
        *,
        session: str | None = None,
        key: str | None = "",
        timeout: float | None = None,
    ) -> Stream:
        """POST and read events until `end`, `error`, the end of the stream, or `timeout` seconds.

        Raises:
            Failed: the connection broke, or the answer is too large.
        """
        sent = self._sent("POST", path, body, None)
        _last.set(Evidence(sent, "nothing"))
        parser, events, received = Parser(), list[Event](), bytearray()
        started = last = time.monotonic()
        silence, status, headers = 0.0, 0, httpx2.Headers()
        try:
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(timeout or self.limits.answer),
                    self._client.stream(
                        "POST",
                        path,
                        content=_content(body, None),
                        headers={**self._headers(session, key), "accept": "text/event-stream"},
                        timeout=None,
                    ) as response,
                ):
                    status, headers = response.status_code, response.headers
                    async for piece in response.aiter_bytes():
                        now = time.monotonic()
                        silence, last = max(silence, now - last), now
                        received += piece
                        if len(received) > self.limits.body:
                            raise Failed(sent, f"more than {self.limits.body:,} bytes")
                        events += parser.feed(piece)
                        if any(event.name in _ENDINGS for event in events):
                            break
        except httpx2.HTTPError as error:
            raise Failed(sent, self.clean(f"the stream broke: {_reason(error, 0)}")) from error
        finished = time.monotonic()
        got = self.clean(_shown(status, events, received))
        _last.set(Evidence(sent, got))
        return Stream(
            sent,
            status,
            headers,
            bytes(received),
            got,
            tuple(events),
            parser.comments,
            max(silence, finished - last),
            finished - started,
            any(event.name in _ENDINGS for event in events),
        )

    async def _read(self, response: httpx2.Response, sent: str) -> bytes:
        received = bytearray()
        async for piece in response.aiter_bytes():
            received += piece
            if len(received) > self.limits.body:
                raise Failed(sent, f"more than {self.limits.body:,} bytes")
        return bytes(received)

    def _headers(self, session: str | None, key: str | None) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if session is not None:
            headers["x-session-id"] = session
        key = self.api_key if key == "" else key
        if key:
            headers["x-api-key"] = key
        return headers

    def _sent(self, method: str, path: str, body: Any, raw: bytes | None) -> str:
        shown = raw.decode() if raw is not None else "" if body is None else json.dumps(body, ensure_ascii=False)
        return self.clean(f"{method} {path} {shown}".rstrip())

    def clean(self, text: str, shown: int = _SHOWN) -> str:
        """Return a text as one short line without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        length = len(text)
        return printable(text) if length <= shown else f"{printable(text[:shown])}… ({length:,} characters)"


def _of_url(parts: SplitResult) -> list[str]:
    """Return a URL's password, as it stands there and as it is sent."""
    if parts.password is None:
        return []
    password = unquote(parts.password)
    basic = base64.b64encode(f"{unquote(parts.username or '')}:{password}".encode()).decode()
    return [parts.password, password, basic]


def _spellings(found: Iterable[str]) -> list[str]:
    """Return secrets as they may come back, in JSON too, the longest first: one may be a part of another."""
    spelled = {spelling for one in found if one for spelling in (one, json.dumps(one)[1:-1])}
    return sorted(spelled, key=len, reverse=True)


def _content(body: Any, raw: bytes | None) -> bytes | None:
    return raw if raw is not None else None if body is None else json.dumps(body).encode()


def _text(body: bytes) -> str:
    return body.decode(errors="replace")


def _shown(status: int, events: list[Event], received: bytearray) -> str:
    if not events:
        return f"{status} {_text(bytes(received))}".rstrip()
    return f"{status} " + " ".join(f"[{event.name}] {event.data}".rstrip() for event in events)


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"nothing within {seconds:g} s"
    return str(error) or type(error).__name__
