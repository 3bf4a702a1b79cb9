"""uvicorn's HTTP connection with the deadlines and sizes it lacks, against clients that send slowly or without end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from envs.server.settings import Settings

_UNREAD_SECONDS = 60.0
"""Time that a client may leave an answer unread before it is cut off."""
_LINGER_SECONDS = 1.0
"""Time that a client has to read why it is refused, while what it still sends is thrown away."""
_CHUNKING = 8
"""How much longer a body may be on its way than it is: chunks of one byte take six, and trailers come on top."""

_DETAILS = {
    400: "This is not a valid HTTP request.",
    408: "The request did not arrive in time.",
    413: "The request is too long.",
    431: "The request's line and headers are too long.",
}


class Connection(HttpToolsProtocol):
    """One client's connection.

    A request must arrive whole within `request_seconds` of its first byte, or of the connection's start; its line and
    headers must not exceed `max_header_bytes`, nor all of it `max_request_bytes`. What is wrong is answered in JSON and
    the connection closed.
    """

    max_header_bytes: int
    max_request_bytes: int
    request_seconds: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arriving: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._in_headers = False
        self._in_message = False
        self._received = 0
        self._refusal = 400
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arriving = self.loop.call_later(self.request_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._received += len(data)
        super().data_received(data)
        if not self._in_message:
            if self._arriving is not None:
                self._arriving.cancel()
                self._arriving = None
        elif self._in_headers and self._received > self.max_header_bytes:
            self._refuse(431)
        elif self._received > self.max_request_bytes:
            self._refuse(413)
        elif self._arriving is None:
            self._arriving = self.loop.call_later(self.request_seconds, self._late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_message = self._in_headers = True

    def on_headers_complete(self) -> None:
        if self._received > self.max_header_bytes and self._header_bytes() > self.max_header_bytes:
            self._refusal = 431
            raise httptools.HttpParserError
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_message = False
        self._received = 0

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses, which is also every request for which one of its callbacks raises."""
        self._refuse(self._refusal)

    def _late(self) -> None:
        self._refuse(408)

    def _refuse(self, status: int) -> None:
        self._cancel()
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self._may_answer():
            body = json.dumps({"detail": _DETAILS[status]}).encode()
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        # Closed at once, with bytes of the client still unread, the connection would be reset before the client has
        # read the answer.
        self.transport.write_eof()
        self._closing = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _may_answer(self) -> bool:
        # Not in the middle of another request's answer, and not after this one's has begun.
        if self.cycle is None:
            return True
        if self._in_message and not self._in_headers:
            return not self.cycle.response_started
        return self.cycle.response_complete

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _cancel(self) -> None:
        for timer in (self._arriving, self._unread, self._closing):
            if timer is not None:
                timer.cancel()
        self._arriving = self._unread = self._closing = None


def connection_class(settings: Settings) -> type[Connection]:
    """Return the class of a server's connections, with its limits."""
    limits = {
        "max_header_bytes": settings.max_header_bytes,
        "max_request_bytes": settings.max_header_bytes + _CHUNKING * settings.max_body_bytes,
        "request_seconds": settings.request_seconds,
    }
    return type("Connection", (Connection,), limits)
