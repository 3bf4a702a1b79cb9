"""No request gets a traceback or stops the server: what cannot be read is answered 4xx, what goes wrong 500."""

from __future__ import annotations

import asyncio
import json
import logging

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envs.server.asgi import answer, retry_later

logger = logging.getLogger(__name__)

_DECODED_HEADERS = frozenset({b"x-session-id", b"x-user-id", b"x-organisation-id"})


class Guard:
    """The outermost layer: refuses what the SDK's server would stumble over, and answers for every other failure."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        unreadable = _unreadable(scope)
        if unreadable:
            await answer(scope, send, 400, {"detail": f"{unreadable} is not UTF-8."})
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            # Whoever ends the server ends the requests with it.
            if started:
                raise
            detail = "The request was cut off: the server is stopping."
            await answer(scope, send, 503, {"detail": detail}, retry_later())
        except (Exception, SystemExit):
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # uvicorn closes the connection: half an answer must not look like a whole one
            await answer(scope, send, 500, {"detail": "Internal Server Error"})


def sendable(text: str) -> str:
    """Return a text as it can be sent: half a surrogate pair cannot, and the answer would break off in the middle."""
    return text.encode(errors="backslashreplace").decode()


def add_handlers(app: FastAPI) -> None:
    """Have the SDK's app answer 4xx to a request whose errors cannot be told in JSON.

    They quote what the request held, NaN or half a surrogate pair for example.
    """
    app.add_exception_handler(RequestValidationError, _invalid)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    try:
        return await request_validation_exception_handler(request, error)
    except (ValueError, RecursionError):
        brief = [{key: found[key] for key in ("type", "loc", "msg")} for found in error.errors()]
        return Response(json.dumps({"detail": brief}), 422, media_type="application/json")


def _unreadable(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name in _DECODED_HEADERS and not value.isascii() and not _is_utf8(value):
            return f"The header {name.decode()}"
    query = scope["query_string"]
    return "The query string" if not query.isascii() and not _is_utf8(query) else ""


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
