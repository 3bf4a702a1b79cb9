"""A server that breaks one rule: `python broken_server.py` serves, under /RULE, the SDK's own server with one fault.

One process for all faults, so that a test run starts it once: the first part of the path says which; under /none
nothing is broken. It asks for the key in ORS_TEST_KEY, and sends its comments so often that no test waits for one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import sse_starlette
import uvicorn
from openreward.environments import Server, server
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.envs.conformance_environment import Answer, Conformance, Spoken, sdk
from tests.envs.fault_kinds import Forward, Request, Response
from tests.envs.faults import FAULTS, FAULTS_BESIDES

PING_SECONDS = 0.3


class EveryRule(Conformance):
    """The full environment with a terminal tool besides, so that one environment shows every rule."""

    @sdk.terminal
    @sdk.tool
    async def final(self, message: Answer) -> sdk.ToolOutput:
        """Grade the last message."""
        return sdk.ToolOutput(blocks=[sdk.TextBlock(text="graded")], reward=0.0, finished=True)


def often(*args: Any, ping: float | None = None, **more: Any) -> sse_starlette.EventSourceResponse:
    """Return the SDK's event stream with more frequent comments."""
    return sse_starlette.EventSourceResponse(*args, ping=PING_SECONDS, **more)


class Broken:
    """Chooses the fault by the path and passes what it does not touch through as it comes, event by event."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._faults = {rule: fault() for rule, fault in {**FAULTS, **FAULTS_BESIDES}.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _, rule, path = scope["path"].split("/", 2) if scope["path"].count("/") > 1 else ("", "none", scope["path"][1:])
        request = Request(scope["method"], f"/{path}", _headers(scope), await _body(receive))
        if not _has_key(request) and not (rule == "ORS-060" and request.path.endswith("/call")):
            await JSONResponse({"detail": "a key is needed"}, 401)(scope, receive, send)
            return
        fault = self._faults.get(rule)
        response = await fault(request, self._forward(scope)) if fault else None
        if response is None:
            await self._app(_scope(scope, request), _replay(request.body, receive), send)
            return
        headers = [(name.encode(), value.encode()) for name, value in response.headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    def _forward(self, scope: Scope) -> Forward:
        async def forward(request: Request) -> Response:
            response = Response(0, b"", {})

            async def take(message: Any) -> None:
                if message["type"] == "http.response.start":
                    response.status = message["status"]
                    pairs = [(name.decode(), value.decode()) for name, value in message["headers"]]
                    response.headers = {name: value for name, value in pairs if name != "content-length"}
                else:
                    response.body += message.get("body", b"")

            await self._app(_scope(scope, request), _replay(request.body, _never), take)
            return response

        return forward


def _has_key(request: Request) -> bool:
    key = os.environ.get("ORS_TEST_KEY")
    return key is None or request.path == "/health" or request.headers.get("x-api-key") == key


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in scope["headers"]}


def _scope(scope: Scope, request: Request) -> Scope:
    headers = {**request.headers, "content-length": str(len(request.body))}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {**scope, "path": request.path, "raw_path": request.path.encode(), "headers": pairs}


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return waiting.pop() if waiting else await receive()

    return replay


async def _never() -> Any:
    await asyncio.Event().wait()


if __name__ == "__main__":
    server.EventSourceResponse = often
    uvicorn.run(
        Broken(Server([EveryRule, Spoken]).app),
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        log_level="error",
        timeout_graceful_shutdown=1,
        access_log=False,
    )
