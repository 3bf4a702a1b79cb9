"""No request gets a traceback or stops the server: what cannot be read is answered 4xx, what goes wrong 500."""

from __future__ import annotations

import json
import logging

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envs.server.asgi import answer

logger = logging.getLogger(__name__)

_DECODED_HEADERS = frozenset({b"x-session-id", b"x-user-id", b"x-organisation-id"})
_BAD_INPUT = (ValueError, TypeError, LookupError)  # pydantic's ValidationError is a ValueError


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
        except (Exception, SystemExit):
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # uvicorn closes the connection: half an answer must not look like a whole one
            await answer(scope, send, 500, {"detail": "Internal Server Error"})


def add_handlers(app: FastAPI, show_errors: bool) -> None:
    """Have the SDK's app answer 4xx to what it would otherwise fail on.

    That is a request whose errors cannot be told in JSON (they quote what the request held, NaN or half a surrogate
    pair for example), and a task that an environment's constructor rejects: the client wrote it.

    Args:
        app: the SDK's app.
        show_errors: tell the client what the constructor raised.
    """

    async def rejected(request: Request, error: Exception) -> Response:
        if request.url.path != "/create" or (await request.json()).get("task_spec") is None:
            raise error
        reason = f": {type(error).__name__}: {error}" if show_errors else "; the reason is in the server's log."
        text = f"The environment rejected the task_spec{reason}"
        return Response(json.dumps({"detail": text}), 400, media_type="application/json")

    app.add_exception_handler(RequestValidationError, _invalid)
    for error in _BAD_INPUT:
        app.add_exception_handler(error, rejected)


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
