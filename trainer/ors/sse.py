"""Server-sent events, read as the standard says, byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_EVENT_BYTES = 64 * 2**20  # more than any tool result has a use for; a broken server must not fill the memory
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Event:
    """One server-sent event: its name and its data, as sent."""

    name: str
    data: str


class EventReader:
    """Splits a byte stream into events as the SSE standard says (WHATWG HTML, 9.2.6): lines end in CR, LF or CRLF,
    one space after the colon is removed and no more, comments and unknown fields are passed over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False
        self._at_start = True
        self._name = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes. Raises ValueError for one of over `MAX_EVENT_BYTES`."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        if data:
            self._after_cr = False
        self._buffer += data
        events = []
        while (line := self._take_line()) is not None:
            event = self._read(line)
            if event is not None:
                events.append(event)
        if len(self._buffer) + self._data_bytes > MAX_EVENT_BYTES:
            raise ValueError(f"an event of over {MAX_EVENT_BYTES} bytes")
        return events

    def _take_line(self) -> bytes | None:
        end = _LINE_END.search(self._buffer, self._searched)
        if end is None:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[: end.start()])
        self._after_cr = end.group() == b"\r" and end.end() == len(self._buffer)
        del self._buffer[: end.end()]
        self._searched = 0
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def _read(self, line: bytes) -> Event | None:
        if not line:
            event = Event(self._name or "message", "\n".join(self._data)) if self._data else None
            self._name, self._data, self._data_bytes = "", [], 0
            return event
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
            self._data_bytes += len(line)
        return None
