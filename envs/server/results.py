"""What calls end with, kept for a client that lost its connection and comes back: for a minute, and in bounded memory.

It takes the place of the SDK's `sse_task_stream` and sends the same events. The SDK keeps whatever a call ended with,
however much that is, an exception with all that its frames hold, and both beyond their session's end.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from envs.server import sdk

_KEPT_SECONDS = sdk.LINGER_SECONDS
_SESSION_BYTES = 16 * 2**20
_TOTAL_BYTES = 128 * 2**20
_OVERHEAD = 1000
"""What is kept of every call beside its text, about."""
_LOOK_SECONDS = 10.0
"""Time after which a stream looks whether its client is still there."""


@dataclass(slots=True)
class _Call:
    sid: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    failed: bool = False
    text: str = ""
    size: int = 0


@dataclass(slots=True)
class _Session:
    calls: dict[str, _Call] = field(default_factory=dict)
    size: int = 0


class Results:
    """Runs the work behind event streams and keeps its results by `task_id`.

    Where they are too much, the oldest go first; the latest is always kept, for its client may just have been lost.

    Args:
        told: awaits work that a client waits for, and decides which text its failure has.
        session_bytes: size of the results kept of one session.
        total_bytes: size of all results kept.
    """

    def __init__(
        self,
        told: Callable[[sdk.Work], sdk.Work],
        session_bytes: int = _SESSION_BYTES,
        total_bytes: int = _TOTAL_BYTES,
    ) -> None:
        self._told = told
        self._session_bytes = session_bytes
        self._total_bytes = total_bytes
        self._running: set[asyncio.Task[str]] = set()
        self._calls: dict[str, _Call] = {}
        self._sessions: dict[str, _Session] = {}
        self._kept: dict[str, None] = {}
        """Ids of calls that have ended, the oldest first."""
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that the kept results take."""
        return self._size

    async def stream(
        self, make: Callable[[], sdk.Work], request: Request, task_id: str | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Give the events of a call as the SDK does.

        Args:
            make: the work, which is begun if no `task_id` is given.
            request: the client's.
            task_id: an earlier call, whose events are given again.
        """
        if task_id is None:
            task_id = self._start(self._told(make()), sdk.session_id(request.scope))
        call = self._calls.get(task_id)
        if call is None:
            yield {"event": "error", "data": "unknown task_id"}
            return
        yield {"event": "task_id", "data": task_id}
        while not call.ended.is_set():
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await call.ended.wait()
            except TimeoutError:
                if await request.is_disconnected():
                    return
        if call.failed:
            yield {"event": "error", "data": call.text}
            return
        for at in range(0, len(call.text), sdk.CHUNK_SIZE):
            end = at + sdk.CHUNK_SIZE
            yield {"event": "end" if end >= len(call.text) else "chunk", "data": call.text[at:end]}

    def forget(self, sid: str) -> None:
        """Keep nothing of a session that has ended; who waits for one of its calls is still told its end."""
        session = self._sessions.pop(sid, _Session())
        for task_id in session.calls:
            del self._calls[task_id]
            self._kept.pop(task_id, None)
        self._size -= session.size

    def _start(self, work: sdk.Work, sid: str) -> str:
        task_id = uuid.uuid4().hex
        call = self._calls[task_id] = _Call(sid)
        self._sessions.setdefault(sid, _Session()).calls[task_id] = call
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(lambda task: self._end(task_id, call, task))
        return task_id

    def _end(self, task_id: str, call: _Call, task: asyncio.Task[str]) -> None:
        self._running.discard(task)
        error = asyncio.CancelledError("the call was cancelled") if task.cancelled() else task.exception()
        call.failed = error is not None
        call.text = task.result() if error is None else str(error)
        call.ended.set()
        if self._calls.get(task_id) is call:
            self._keep(task_id, call)

    def _keep(self, task_id: str, call: _Call) -> None:
        session = self._sessions[call.sid]
        session.calls[task_id] = session.calls.pop(task_id)  # in the order in which they end
        self._kept[task_id] = None
        call.size = sys.getsizeof(call.text) + _OVERHEAD
        session.size += call.size
        self._size += call.size
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._drop, task_id)
        while session.size > self._session_bytes and len(session.calls) > 1:
            oldest = next(known for known, other in session.calls.items() if other.size)
            if oldest == task_id:
                break
            self._drop(oldest)
        while self._size > self._total_bytes and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, task_id: str) -> None:
        call = self._calls.pop(task_id, None)
        if call is None:
            return
        del self._kept[task_id]
        self._size -= call.size
        session = self._sessions[call.sid]
        session.size -= call.size
        del session.calls[task_id]
        if not session.calls:
            del self._sessions[call.sid]
