"""The SDK's server behind a gate, like a private Space: `python gated_server.py` asks for the token in GATE_TOKEN.

What is asked for at /elsewhere is redirected to the URL in GATE_ELSEWHERE.
"""

from __future__ import annotations

import os

import uvicorn
from openreward.environments import Server
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.envs.conformance_environment import Spoken


class Gate:
    """Lets nothing in without the token, but for `/health`, which the test waits for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/health":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            if given != f"Bearer {os.environ['GATE_TOKEN']}":
                await JSONResponse({"detail": "Invalid username or password."}, 401)(scope, receive, send)
                return
            if scope["path"].startswith("/elsewhere"):
                await RedirectResponse(os.environ["GATE_ELSEWHERE"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(
        Gate(Server([Spoken]).app),
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        log_level="error",
        timeout_graceful_shutdown=1,
    )
