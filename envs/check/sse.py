"""A parser of event streams that changes nothing: of a value one leading space goes, as the standard says."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """One event of a stream: its name ("message" where the server gave none) and its data."""

    name: str
    data: str


class Parser:
    """Takes bytes as they arrive. Source: WHATWG HTML, Server-sent events, Interpreting an event stream."""

    def __init__(self) -> None:
        self.comments = 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that this piece completes."""
        text = self._rest + self._decoder.decode(piece)
        # A carriage return at the end may be the first half of a line end.
        held = "\r" if text.endswith("\r") else ""
        *lines, last = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = last + held
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name or "message", "\n".join(self._data)) if self._data or self._name else None
            self._name, self._data = "", []
            return event
        if line.startswith(":"):
            self.comments += 1
            return None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None
