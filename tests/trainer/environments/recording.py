"""What a test server tells about itself: the requests it got, the sessions it has, what ran, and how much at once."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections import Counter
from typing import Any

import uvicorn
from openreward.environments import Environment, Server


class Record:
    """Counts kept by the environments of a process; `GET /record` answers with them, `POST` forgets
    what they were."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.forget()

    def forget(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.ran: Counter[str] = Counter()
        self.given: list[Any] = []
        self.most: Counter[str] = Counter()

    def enter(self, what: str) -> None:
        self.now[what] += 1
        self.most[what] = max(self.most[what], self.now[what])

    def leave(self, what: str) -> None:
        self.now[what] -= 1


record = Record()


def serve(environments: list[type[Environment]]) -> None:
    """Serve on 127.0.0.1 and the port of the variable PORT.

    REAP_SECONDS: sessions idle for so long are deleted, as the SDK's reaper does after 900 s. KEEPALIVE_SECONDS: idle
    HTTP connections are closed after so long.
    """
    server = Server(environments)
    inner = server.app
    reaper: list[asyncio.Task[None]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        if scope["path"] == "/record":
            if scope["method"] == "POST":
                record.forget()
            await _tell(server, send)
            return
        if not reaper and "REAP_SECONDS" in os.environ:
            reaper.append(asyncio.create_task(_reap(server, float(os.environ["REAP_SECONDS"]))))
        if scope["path"] != "/health":
            record.requests.append({"method": scope["method"], "path": scope["path"], "headers": _headers(scope)})
        record.enter("requests")
        try:
            await inner(scope, receive, send)
        finally:
            record.leave("requests")

    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        log_level="warning",
        timeout_keep_alive=int(os.environ.get("KEEPALIVE_SECONDS", "60")),
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run()


def _headers(scope: Any) -> dict[str, str]:
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    if "x-secrets" in headers:
        headers["x-secrets"] = base64.b64decode(headers["x-secrets"]).decode()
    return headers


async def _tell(server: Server, send: Any) -> None:
    told = {
        "requests": record.requests,
        "ran": record.ran,
        "given": record.given,
        "most": record.most,
        "now": record.now,
        "open": len(server._active_envs),
        "pid": os.getpid(),
    }
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


async def _reap(server: Server, after: float) -> None:
    while True:
        await asyncio.sleep(after / 10)
        now = time.monotonic()
        for sid, heard in list(server._last_ping.items()):
            if now - heard > after and server._active_envs.pop(sid, None) is not None:
                server._ready.pop(sid, None)
                server._last_ping.pop(sid, None)
                record.ran["reaped"] += 1
