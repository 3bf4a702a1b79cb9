"""The server's log: one stream, standard error, in which no key and no secret of a session appears."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import MutableMapping
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from envs.server import sdk
from envs.server.calls import Rejected
from envs.server.redaction import Redaction
from envs.server.settings import Settings

logger = logging.getLogger(__name__)

_SHOWN = 200
_ORDER = ["timestamp", "level", "event", "method", "path", "status", "detail"]


class _Formatter(logging.Formatter):
    def __init__(self, redaction: Redaction) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        try:
            line = super().format(record)
        except Exception as error:
            # An environment's mistake. Left to logging, it would be printed with its arguments as they are.
            line = f"{record.levelname} {record.name}: {record.msg!r} cannot be formatted with {record.args!r}: {error}"
        return self._redaction(line)


def configure(settings: Settings, redaction: Redaction) -> None:
    """Send what the server, uvicorn and the SDK log to standard error, from `settings.log_level` up."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(redaction))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread
    # Its warnings are one line for every request that is no HTTP, which is for strangers to send.
    logging.getLogger("uvicorn.error").setLevel(level if level <= logging.INFO else logging.ERROR)

    def hide(_logger: object, _method: str, line: Any) -> str:
        return redaction(line)

    def briefly(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = sys.exc_info()[1]
        if isinstance(error, Rejected):
            trace = {"exc_info": error.__cause__} if level <= logging.DEBUG else {}
            return {**event, "detail": error.reason, **trace}
        if event.get("exc_info") is not True or not isinstance(error, RequestValidationError | HTTPException):
            return event
        if level > logging.WARNING:
            raise structlog.DropEvent
        return _rejection(event, error)

    def short(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event.get("exc_info") is True:
            return event
        # Any client can cause many of these lines, and much of them quotes what it sent.
        told = {name: _shown(value, redaction) if isinstance(value, str) else value for name, value in event.items()}
        if event["event"] != "request_rejected":
            return told
        said = {name: value for name, value in told.items() if name not in ("logger", "httpRequest") and value != ""}
        return {"status": event.get("httpRequest", {}).get("status"), **said}

    def make(name: str) -> Any:
        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                briefly,
                short,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.format_exc_info,
                structlog.processors.LogfmtRenderer(key_order=_ORDER, drop_missing=True, bool_as_flag=False),
                hide,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        ).bind(logger=name)

    sdk.use_logger(make)


def _log_thread(failed: threading.ExceptHookArgs) -> None:
    # Without this it would be printed by Python itself, secrets and all.
    if failed.exc_type is not SystemExit and failed.exc_value is not None:
        name = failed.thread.name if failed.thread else "?"
        logger.error("thread %s ended in an exception", name, exc_info=failed.exc_value)


def _rejection(event: MutableMapping[str, Any], error: RequestValidationError | HTTPException) -> dict[str, Any]:
    """Return what the SDK logs as its own failure, with a traceback, as the line it logs for any other refusal."""
    if isinstance(error, HTTPException):
        detail, status = str(error.detail), error.status_code
    else:  # where the client's body is wrong, and not what it held
        detail = "; ".join(f"{'.'.join(map(str, found['loc']))}: {found['type']}" for found in error.errors()[:3])
        status = 422
    told = {key: value for key, value in event.items() if key not in ("exc_info", "error", "error_type")}
    return {**told, "level": "warning", "event": "request_rejected", "status": status, "detail": detail}


def _shown(detail: str, redaction: Redaction) -> str:
    # Redacted before it is cut: half a secret would no longer be found.
    return redaction(detail)[:_SHOWN].encode("unicode_escape").decode()
