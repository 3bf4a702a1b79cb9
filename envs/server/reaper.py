"""Ends the sessions that nobody uses any more, so that a dead client's state is freed."""

from __future__ import annotations

import asyncio
import logging

from envs.server.calls import Calls
from envs.server.gate import SessionGate
from envs.server.metrics import Metrics
from envs.server.redaction import Redaction
from envs.server.sdk import Sessions

logger = logging.getLogger(__name__)

_LONGEST_PAUSE = 5.0
_TEARDOWN_SECONDS = 60.0


class Reaper:
    """Looks at all sessions every few seconds, and more often where the idle time is short."""

    def __init__(
        self,
        sessions: Sessions,
        calls: Calls,
        gate: SessionGate,
        idle_seconds: float,
        metrics: Metrics,
        redaction: Redaction,
    ) -> None:
        self._sessions = sessions
        self._calls = calls
        self._gate = gate
        self._idle_seconds = idle_seconds
        self._metrics = metrics
        self._redaction = redaction
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(min(_LONGEST_PAUSE, self._idle_seconds / 4))
            self._sessions.forget_strangers()
            self._redaction.keep(self._gate.known())
            idle = []
            for sid in self._sessions.idle(self._idle_seconds):
                environment = self._sessions.environment(sid)
                if environment is not None and self._calls.busy(environment):
                    self._sessions.touch(sid)
                else:
                    idle.append(sid)
            for sid in idle:
                # Side by side: one teardown that hangs must not keep the others waiting.
                ending = asyncio.create_task(self._end(sid))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def _end(self, sid: str) -> None:
        self._metrics.session_ended("idle")
        try:
            async with asyncio.timeout(_TEARDOWN_SECONDS):
                await self._sessions.end(sid)
        except TimeoutError:
            logger.error("session %s: teardown took longer than %.0f s and was left alone", sid, _TEARDOWN_SECONDS)
        except Exception:
            logger.exception("session %s could not be ended", sid)
