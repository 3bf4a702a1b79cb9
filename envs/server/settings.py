"""What a server's operator can set, all of it through environment variables; docs/server.md has the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class SettingsError(ValueError):
    """A variable has a value that cannot be used; the message is one line that names the variable."""


@dataclass(frozen=True)
class Settings:
    """Access, limits and times of one server. All sizes are in bytes, all times in seconds.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        api_keys: keys of which a request must carry one; empty leaves the server open.
        max_sessions: sessions open at once; one more is answered 429.
        max_calls: tool calls of one session; later ones are refused in the protocol's own words.
        max_body_bytes: size of a request's body; a longer one is answered 413.
        max_header_bytes: size of a request's line and headers together; more is answered 431.
        call_seconds: time of one tool call, and of whatever else a client waits for: a prompt, scores, tasks. What
            takes longer ends as an error; opening and ending a session may take longer.
        idle_seconds: time without a request, a ping or a running call after which a session is ended.
        request_seconds: time in which a request must have arrived whole; a slower one is answered 408.
        drain_seconds: time that running calls get to finish when the server is told to stop.
        threads: threads for the code of environments that is not asynchronous.
        show_errors: tell the client the text of an exception that a tool raised; otherwise only the log has it.
        ready_create: `/ready` opens and closes a session of every environment; otherwise it only reads a task.
        ready_seconds: time after which `/ready` no longer waits for an environment that it checks.
        log_level: least severe messages to log; at "info" there are three lines for every tool call.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_sessions: int = 4096
    max_calls: int = 1000
    max_body_bytes: int = 4 * 2**20
    max_header_bytes: int = 64 * 2**10
    call_seconds: float = 300.0
    idle_seconds: float = 900.0
    request_seconds: float = 30.0
    drain_seconds: float = 6.0
    threads: int = 64
    show_errors: bool = True
    ready_create: bool = True
    ready_seconds: float = 30.0
    log_level: str = "warning"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], **given: Any) -> Settings:
        """Read the settings from variables; an empty variable counts as one that is not set.

        Args:
            environ: usually `os.environ`.
            given: fields that the caller decides, such as the host and the port of a command line.

        Raises:
            SettingsError: a value cannot be used.
        """
        read = {}
        for variable, (name, parse) in VARIABLES.items():
            text = environ.get(variable, "").strip()
            if text:
                try:
                    read[name] = parse(text)
                except ValueError as error:
                    raise SettingsError(f"{variable}: {error}") from None
        return cls(**{**read, **given})


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """Return a number of seconds above 0; raises ValueError for any other text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return value


def _flag(text: str) -> bool:
    values = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in values:
        raise ValueError(f"{text!r} is neither true nor false")
    return values[text.lower()]


def _level(text: str) -> str:
    levels = ("debug", "info", "warning", "error")
    if text.lower() not in levels:
        raise ValueError(f"{text!r} is none of {', '.join(levels)}")
    return text.lower()


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(","))
    # The value stays out of the message: it is a secret even when it is unusable.
    if not all(keys):
        raise ValueError("one of the keys is empty; keys are separated by single commas")
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise ValueError("a key has characters that a header cannot carry; use printable ASCII")
    return keys


VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "ENV_API_KEY": ("api_keys", _keys),
    "ENV_MAX_SESSIONS": ("max_sessions", _whole),
    "ENV_MAX_CALLS": ("max_calls", _whole),
    "ENV_MAX_BODY_BYTES": ("max_body_bytes", _whole),
    "ENV_MAX_HEADER_BYTES": ("max_header_bytes", _whole),
    "ENV_CALL_SECONDS": ("call_seconds", seconds),
    "ENV_IDLE_SECONDS": ("idle_seconds", seconds),
    "ENV_REQUEST_SECONDS": ("request_seconds", seconds),
    "ENV_DRAIN_SECONDS": ("drain_seconds", seconds),
    "ENV_THREADS": ("threads", _whole),
    "ENV_SHOW_ERRORS": ("show_errors", _flag),
    "ENV_READY_CREATE": ("ready_create", _flag),
    "ENV_READY_SECONDS": ("ready_seconds", seconds),
    "ENV_LOG_LEVEL": ("log_level", _level),
}
