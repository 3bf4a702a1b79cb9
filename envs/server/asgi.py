"""The little of ASGI that every part of the server needs: types, a header, a JSON answer."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import Message, Receive, Scope, Send

RETRY_AFTER_SECONDS = 2
"""What a client is told to wait when it may come back; the SDK's client waits for that long, 10 s at most."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first value of a header, whose name is given in lower case."""
    return next((value for key, value in scope["headers"] if key == name), None)


async def answer(
    scope: Scope, send: Send, status: int, content: object, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole JSON answer; a server's refusals all go through here, as `{"detail": "..."}`."""
    body = json.dumps(content, separators=(",", ":")).encode()
    await send_bytes(scope, send, status, body, "application/json", headers)


async def send_bytes(
    scope: Scope, send: Send, status: int, body: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole answer of any type, without the body where the request was a HEAD."""
    own = {"content-type": media_type, "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def retry_later(seconds: int = RETRY_AFTER_SECONDS) -> dict[str, str]:
    """Return the header that asks a client to come back."""
    return {"retry-after": str(seconds)}


def replay(first: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives a message which has been received already, then goes on with the rest."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return first

    return again
