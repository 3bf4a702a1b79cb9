"""HTTP and server-sent events, exactly: one request, or one resumable tool call.

The SDK's own reader strips white space at the border of every 4,096-character chunk and re-sends a call that has no
task id yet, so that a tool can run twice. This one keeps every byte and repeats a call only when it cannot have run.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from trainer.ors.errors import EnvironmentFailure

MAX_EVENT_BYTES = 64 * 2**20  # more than any tool result has a use for; a broken server must not fill the memory
HEARTBEAT = 30.0  # seconds of silence after which a stream counts as broken; servers send a comment every 10
RECONNECTS = 5  # as many as the SDK allows
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GATEWAY = frozenset({429, 502, 503, 504})  # said by what stands before the environment, not by its code


@dataclass(frozen=True)
class Event:
    """One server-sent event: its name and its data, as sent."""

    name: str
    data: str


class EventReader:
    """Splits a byte stream into events as the SSE standard says (WHATWG HTML, 9.2.6): lines end in CR, LF or CRLF,
    one space after the colon is removed and no more, comments and unknown fields are passed over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        if data:
            self._after_cr = False
        self._buffer += data
        events = []
        while (line := self._take_line()) is not None:
            event = self._read(line.decode("utf-8", "replace"))
            if event is not None:
                events.append(event)
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise ValueError(f"an event of over {MAX_EVENT_BYTES} bytes")
        return events

    def _take_line(self) -> bytes | None:
        ends = [
            at for at in (self._buffer.find(b"\n", self._searched), self._buffer.find(b"\r", self._searched)) if at >= 0
        ]
        if not ends:
            self._searched = len(self._buffer)
            return None
        end = min(ends)
        line = bytes(self._buffer[:end])
        after = end + 1
        if self._buffer[end : end + 1] == b"\r":
            if after == len(self._buffer):
                self._after_cr = True
            elif self._buffer[after : after + 1] == b"\n":
                after += 1
        del self._buffer[:after]
        self._searched = 0
        return line

    def _read(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name or "message", "\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None


def http_client(base_url: str) -> aiohttp.ClientSession:
    """A pool of connections to one server, as many as there are requests at once.

    The proxy is looked up here, once. aiohttp, told to trust the environment's variables, does so on a helper thread
    before every request, and sends what a `.netrc` holds for the host.
    """
    parts = urlsplit(base_url)
    proxy, auth = None, None
    if parts.hostname and not urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        found = urllib.request.getproxies().get(parts.scheme)
        if found:
            url = URL(found if "://" in found else f"http://{found}")
            proxy = url.with_user(None)
            auth = aiohttp.BasicAuth(url.user, url.password or "") if url.user else None
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), proxy=proxy, proxy_auth=auth)


class Wire:
    """Requests to one server.

    Args:
        client: An HTTP session, whose pool is shared by all requests to this server.
        base_url: Scheme, host and perhaps a path prefix.
        headers: Sent with every request, to this host and to no other.
        name: What to call the server in messages.
    """

    def __init__(self, client: aiohttp.ClientSession, base_url: str, headers: Mapping[str, str], name: str) -> None:
        self._client = client
        self._base = base_url.rstrip("/")
        self._headers = dict(headers)
        self.name = name
        self.requests = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        sid: str | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON that the server answers. Raises EnvironmentFailure, with `HTTPStatus` where it answered at all."""
        async with self._send(method, path, sid=sid, body=body, headers=headers) as response:
            try:
                return await response.json(content_type=None)
            except ValueError:
                raise EnvironmentFailure(
                    "crash", f"{self.name}: {method} {path} answered with something that is no JSON"
                ) from None

    async def create_session(self, headers: Mapping[str, str] | None = None) -> str:
        """A new session id."""
        sid = None
        async for event in self._events("/create_session", None, {}, headers):
            if event.name == "task_id":
                sid = event.data.strip()
            elif event.name == "error":
                raise EnvironmentFailure("crash", f"{self.name}: no session: {event.data}")
        if not sid:
            raise EnvironmentFailure("unreachable", f"{self.name}: /create_session ended without a session id")
        return sid

    async def call(self, path: str, sid: str, body: Mapping[str, Any]) -> Any:
        """The JSON result of a call that the server runs as a resumable task.

        A connection that breaks after the task id came is taken up again by that id. Before that, the call is sent
        again only where the request cannot have reached the environment: connection refused, or a gateway that says
        the backend is still starting or asks to wait.
        """
        resume: dict[str, str] = {}
        for attempt in range(RECONNECTS + 1):
            try:
                return await self._call_once(path, sid, body, resume)
            except EnvironmentFailure as failure:
                if attempt == RECONNECTS or not (_resumable(failure) if resume else not failure.reached):
                    raise
                await asyncio.sleep(failure.retry_after or min(0.25 * 2**attempt, 4.0))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _call_once(self, path: str, sid: str, body: Mapping[str, Any], resume: dict[str, str]) -> Any:
        parts: list[str] = []
        ended = False
        async for event in self._events(path, sid, {**body, **resume}, None):
            if event.name == "task_id":
                resume["task_id"] = event.data.strip()
            elif event.name == "error":
                raise EnvironmentFailure("crash", event.data or "the tool failed without a message")
            elif event.name in ("chunk", "end"):
                parts.append(event.data)
                ended = ended or event.name == "end"
        if not ended:
            raise EnvironmentFailure("unreachable", f"{self.name}: the stream of a tool call ended early")
        try:
            return json.loads("".join(parts))
        except ValueError:
            raise EnvironmentFailure("crash", f"{self.name}: a tool's result is no JSON") from None

    async def _events(
        self, path: str, sid: str | None, body: Mapping[str, Any], headers: Mapping[str, str] | None
    ) -> AsyncIterator[Event]:
        reader = EventReader()
        accept = {"Accept": "text/event-stream", **(headers or {})}
        async with self._send("POST", path, sid=sid, body=body, headers=accept, silence=HEARTBEAT) as response:
            try:
                async for data in response.content.iter_any():
                    events = reader.feed(data)
                    for event in events:
                        yield event
                    if any(event.name in ("end", "error") for event in events):
                        # What is left is the end of the body. Once read, the connection can serve the next request.
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.25):
                                await response.content.read()
                        return
            except ValueError as error:
                raise EnvironmentFailure("crash", f"{self.name}: {path} sent {error}") from None
            except TimeoutError:
                raise EnvironmentFailure("timeout", f"{self.name}: nothing heard for {HEARTBEAT:.0f} s") from None
            except (aiohttp.ClientError, OSError) as error:
                raise EnvironmentFailure("unreachable", f"{self.name}: connection lost: {_say(error)}") from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        sid: str | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        silence: float | None = None,
    ) -> _Response:
        every = {**self._headers, **(headers or {})}
        if sid is not None:
            every["X-Session-ID"] = sid
        return _Response(self, method, self._base + path, every, body, silence)


class _Response:
    """A request as a context manager whose failures are EnvironmentFailure; follows redirects within its own host only,
    so that no key and no secret ever reaches another."""

    def __init__(
        self,
        wire: Wire,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
        silence: float | None,
    ) -> None:
        self._wire, self._method, self._url, self._headers, self._body = wire, method, url, headers, body
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence)
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        url = self._url
        for _ in range(4):
            response = self._response = await self._request(url)
            if response.status not in _REDIRECTS:
                break
            onward = urljoin(url, response.headers.get("Location", ""))
            response.release()
            if urlsplit(onward)[:2] != urlsplit(self._url)[:2]:
                raise EnvironmentFailure(
                    "refused",
                    f"{self._wire.name}: redirects to {urlsplit(onward).netloc}; give that address if it is meant",
                )
            url = onward
        if response.status >= 400:
            raise await self._failure(response)
        return response

    async def __aexit__(self, *error: object) -> None:
        if self._response is not None:
            self._response.release()

    async def _request(self, url: str) -> aiohttp.ClientResponse:
        wire = self._wire
        wire.requests += 1
        try:
            return await wire._client.request(
                self._method,
                url,
                headers=self._headers,
                json=self._body,
                allow_redirects=False,
                timeout=self._timeout,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise EnvironmentFailure(
                "unreachable", f"{wire.name}: no connection: {_say(error)}", reached=False
            ) from None
        except TimeoutError:
            raise EnvironmentFailure("timeout", f"{wire.name}: no answer within {HEARTBEAT:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EnvironmentFailure("unreachable", f"{wire.name}: connection lost: {_say(error)}") from None

    async def _failure(self, response: aiohttp.ClientResponse) -> EnvironmentFailure:
        text = (await response.text(errors="replace"))[:2000]
        response.release()
        try:
            detail = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = text
        words = " ".join(str(detail).split()) or response.reason or "no reason given"
        return HTTPStatus(self._wire.name, response.status, words, response.headers)


class HTTPStatus(EnvironmentFailure):
    """The server answered with a status of 400 or more."""

    def __init__(self, name: str, status: int, detail: str, headers: Mapping[str, str]) -> None:
        gateway = status in _GATEWAY
        starting = headers.get("X-Backend-State") == "starting"
        after = headers.get("Retry-After", "").strip()
        super().__init__(
            "unreachable" if gateway or status in (404, 410) else "crash" if status >= 500 else "refused",
            f"{name}: {status}: {detail}",
            retry_after=min(float(after), 30.0) if after.isdigit() else None,
            reached=not (starting or status == 429),
            starting=starting,
        )
        self.status = status
        self.detail = detail


def _resumable(failure: EnvironmentFailure) -> bool:
    """Whether a call that has a task id may be taken up again: not where the server knows the session no more."""
    gone = isinstance(failure, HTTPStatus) and failure.status in (404, 410)
    return failure.kind in ("unreachable", "timeout") and not gone


def _say(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
