"""The SDK's event stream, sent with less work: most tool calls end before the first of four helper tasks would run.

sse-starlette starts, for every response, a task that sends the events, one that sends pings, one that waits for the
client to leave and one for the server to stop. Here the response's own task sends the events, in the same bytes; a
task for pings exists only once the first ping is due. A client that leaves needs no watching: what is sent to it is
dropped, and the call runs on, as the protocol wants it, for the client to come back to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast

from sse_starlette import EventSourceResponse
from sse_starlette.event import ServerSentEvent, ensure_bytes
from starlette.types import Receive, Scope, Send

_HEAD_START = 2
"""Turns of the event loop that a call gets to end in, before the stream's first event leaves without its result."""


class EventStream(EventSourceResponse):
    """Takes the place of the class of which it is one, for the streams of the SDK's server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pings: list[asyncio.Task[None]] = []

        def start_pings() -> None:
            pings.append(asyncio.create_task(self._ping_from_now_on(send)))

        timer = asyncio.get_running_loop().call_later(self._ping_interval, start_pings)
        try:
            await self._send_all(send)
        finally:
            timer.cancel()
            for task in pings:
                task.cancel()

    async def _send_all(self, send: Send) -> None:
        # An async generator in the SDK, which the base class knows as anything that can be iterated over.
        async with aclosing(cast(AsyncGenerator[dict[str, Any]], self.body_iterator)) as events:
            first = ensure_bytes(await anext(events), self.sep)
            for _ in range(_HEAD_START):
                await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async for event in events:
                await send({"type": "http.response.body", "body": ensure_bytes(event, self.sep), "more_body": True})
        async with self._send_lock:
            self.active = False
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _ping_from_now_on(self, send: Send) -> None:
        while self.active:
            comment = ServerSentEvent(comment=f"ping - {datetime.now(UTC)}", sep=self.sep)
            async with self._send_lock:
                if self.active:
                    await send({"type": "http.response.body", "body": comment.encode(), "more_body": True})
            await asyncio.sleep(self._ping_interval)
