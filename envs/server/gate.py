"""Opening and ending sessions: while there is room, and while the server is not stopping."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envs.server import sdk
from envs.server.asgi import answer, replay, retry_later
from envs.server.metrics import Metrics
from envs.server.redaction import Redaction
from envs.server.sdk import Sessions

_SECRETS_DETAIL = 'X-Secrets is not base64 of a JSON object {"NAME": {"value": "...", "allowed_domains": [...]}}.'

_STREAMED = ("/call", "/score_group")
"""What goes on without its client, who comes back for the result."""


class SessionGate:
    """Stands before the SDK's app and decides which requests may open a session or start a call.

    Args:
        app: the SDK's app.
        sessions: its sessions.
        limit: sessions that may be open at once, with those that are being torn down.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions, limit: int, metrics: Metrics, redaction: Redaction) -> None:
        self._app = app
        self._sessions = sessions
        self._limit = limit
        self._metrics = metrics
        self._redaction = redaction
        self._opening: set[str] = set()
        self._unanswered: set[asyncio.Task[Any]] = set()
        self.stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None
        self._unanswered.add(task)

        async def watched(message: Message) -> None:
            self._unanswered.discard(task)
            await send(message)

        try:
            await self._decide(scope, receive, watched)
        finally:
            self._unanswered.discard(task)

    @property
    def unanswered(self) -> int:
        """Number of requests whose answer has not begun, because a setup is still going on, say."""
        return len(self._unanswered)

    def cut_off(self) -> None:
        """Cancel the requests without an answer, because the server has to end; the guard answers them."""
        for task in self._unanswered:
            task.cancel()

    async def _decide(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif self.stopping and (path.startswith("/create") or path.endswith(_STREAMED)):
            await self._while_stopping(scope, receive, send)
        elif path == "/create":
            await self._create(scope, receive, send)
        elif path == "/delete":
            await self._delete(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _create(self, scope: Scope, receive: Receive, send: Send) -> None:
        sid = sdk.session_id(scope)
        if not sid:
            await self._app(scope, receive, send)  # which refuses it
            return
        if sid in self._opening:
            await answer(scope, send, 400, {"detail": "Session already exists"})
            return
        if sid in self._sessions.ending():
            detail = "The session of this id is still being torn down; open another one."
            await answer(scope, send, 400, {"detail": detail})
            return
        before = self._sessions.environment(sid)
        if before is None and len(self._sessions) + len(self._opening) >= self._limit:
            self._metrics.refused("sessions")
            detail = f"All {self._limit} sessions of this server are in use; try again later."
            await answer(scope, send, 429, {"detail": detail}, retry_later())
            return
        try:
            secrets = sdk.secrets(scope)
            if before is None:  # otherwise the SDK refuses
                self._redaction.add(sid, secrets)
        except Exception:
            await answer(scope, send, 400, {"detail": _SECRETS_DETAIL})
            return
        self._opening.add(sid)
        try:
            await self._app(scope, receive, send)
        finally:
            self._opening.discard(sid)
            if self._sessions.environment(sid) is not before:
                self._metrics.session_created()

    def known(self) -> set[str]:
        """Return the ids of the sessions that are open, being opened or being torn down."""
        return {*self._sessions, *self._sessions.ending(), *self._opening}

    async def _delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        sid = sdk.session_id(scope)
        known = sid in self._sessions
        await self._app(scope, receive, send)
        if known and sid not in self._sessions:
            self._metrics.session_ended("deleted")

    async def _while_stopping(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if scope["path"].endswith(_STREAMED) and _resumes(message.get("body", b"")):
            await self._app(scope, replay(message, receive), send)
        else:
            await answer(scope, send, 503, {"detail": "This server is stopping."}, retry_later())


def _resumes(body: bytes) -> bool:
    try:
        content = json.loads(body)
    except ValueError:
        return False
    return isinstance(content, dict) and bool(content.get("task_id"))
