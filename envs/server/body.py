"""How much one request may send."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envs.server.asgi import answer, header, replay
from envs.server.metrics import Metrics


class BodyLimit:
    """Read a request's body whole before anything acts on it, and refuse one that is too long."""

    def __init__(self, app: ASGIApp, limit: int, metrics: Metrics) -> None:
        self._app = app
        self._limit = limit
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = header(scope, b"content-length")
        # The parser has refused lengths that are no numbers.
        first = None if announced and int(announced) > self._limit else await self._read(receive)
        if first is None:
            self._metrics.refused("body")
            detail = f"The request's body is longer than {self._limit} bytes."
            await answer(scope, send, 413, {"detail": detail})
        elif first["type"] == "http.request":
            await self._app(scope, replay(first, receive), send)

    async def _read(self, receive: Receive) -> Message | None:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return message if len(message.get("body", b"")) <= self._limit else None
        parts = [message["body"]]
        size = len(parts[0])
        while message.get("more_body"):
            message = await receive()
            if message["type"] != "http.request":
                return message
            parts.append(message["body"])
            size += len(message["body"])
            if size > self._limit:
                return None
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}
