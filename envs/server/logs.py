"""The server's log: one stream, standard error, in which no key and no secret of a session appears."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from envs.server import sdk
from envs.server.settings import Settings

_HIDDEN = "[hidden]"
_SHORTEST = 4
"""Values that are shorter are left alone: hiding "1" or "yes" would make the log unreadable and protect nothing."""
_SHOWN = 200


class Redaction:
    """Takes the server's keys and the secrets of its open sessions out of any text.

    Args:
        keys: values that are hidden as long as the server runs.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = [key for key in keys if len(key) >= _SHORTEST]
        self._sessions: dict[str, set[str]] = {}

    def add(self, sid: str, secrets: Mapping[str, Any]) -> None:
        """Hide a session's secrets from now on."""
        values = {str(value) for value in secrets.values() if len(str(value)) >= _SHORTEST}
        if values:
            self._sessions.setdefault(sid, set()).update(values)

    def keep(self, sids: Collection[str]) -> None:
        """Forget the secrets of all sessions but these."""
        for sid in [sid for sid in self._sessions if sid not in sids]:
            del self._sessions[sid]

    def __call__(self, text: str) -> str:
        values = [*self._keys, *(value for values in self._sessions.values() for value in values)]
        # The longest first: one secret may be a part of another.
        for value in sorted(values, key=len, reverse=True):
            if value in text:
                text = text.replace(value, _HIDDEN)
        return text


class _Formatter(logging.Formatter):
    def __init__(self, redaction: Redaction) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction(super().format(record))


def configure(settings: Settings, redaction: Redaction) -> None:
    """Send what the server, uvicorn and the SDK log to standard error, from `settings.log_level` up."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(redaction))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Its warnings are one line for every request that is no HTTP, which is for strangers to send.
    logging.getLogger("uvicorn.error").setLevel(level if level <= logging.INFO else logging.ERROR)

    def hide(_logger: object, _method: str, line: Any) -> str:
        return redaction(line)

    def briefly(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = sys.exc_info()[1] if event.get("exc_info") is True else None
        if not isinstance(error, RequestValidationError | HTTPException):
            return event
        if level > logging.WARNING:
            raise structlog.DropEvent
        return _rejection(event, error)

    def make(name: str) -> Any:
        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                briefly,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.format_exc_info,
                structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
                hide,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        ).bind(logger=name)

    sdk.use_logger(make)


def _rejection(event: MutableMapping[str, Any], error: RequestValidationError | HTTPException) -> dict[str, Any]:
    """Return what the SDK logs as its own failure, with a traceback, as the line it logs for any other refusal."""
    if isinstance(error, HTTPException):
        detail = str(error.detail)
    else:  # where the client's body is wrong, and not what it held
        detail = "; ".join(f"{'.'.join(map(str, found['loc']))}: {found['type']}" for found in error.errors()[:3])
    shown = detail[:_SHOWN].encode("unicode_escape").decode()
    told = {key: value for key, value in event.items() if key not in ("exc_info", "error", "error_type")}
    return {**told, "level": "warning", "event": "request_rejected", "detail": shown}
