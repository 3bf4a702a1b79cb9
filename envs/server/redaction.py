"""Takes keys and secrets out of text, however they were quoted and escaped on their way there.

What is in a log line has often been through `repr`, `json.dumps` or the log's own renderer, or through several of them.
So the line is searched as it is, and again after each of several rounds of undoing its escapes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

_HIDDEN = "[hidden]"
_SHORTEST = 4
"""Values that are shorter are left alone: hiding "1" or "yes" would make the log unreadable and protect nothing."""
_SHORTEST_LINE = 8
_KEPT_SECONDS = 600.0
_KEPT_CHARACTERS = 2**21
_OVERHEAD = 200
_ROUNDS = 4

_LINE_END = re.compile(r"[\r\n]|\\[rn]")  # the second as in a JSON text that holds a key of several lines
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|([\"'\\/nrtbfv]))"
)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v"}


class Redaction:
    """Takes the server's keys and its sessions' secrets out of any text; may be called from any thread.

    What belonged to a session is hidden for some minutes after its end as well, since what it began may still log. The
    memory that this takes is bounded: what ended first is forgotten first.

    Args:
        keys: values that are hidden as long as the server runs.
        kept_seconds: time for which a secret is hidden after the end of its session.
    """

    def __init__(self, keys: Iterable[str] = (), kept_seconds: float = _KEPT_SECONDS) -> None:
        self._keys = frozenset(_spellings(list(keys)))
        self._kept_seconds = kept_seconds
        self._sessions: dict[str, frozenset[str]] = {}
        self._used: dict[str, float] = {}
        """The spellings of secrets, with the time when they were last known to be in use; the latest come last."""

    def add(self, sid: str, secrets: Mapping[str, Any]) -> None:
        """Hide the secrets of a session that is about to be opened, from now on."""
        self._sessions[sid] = frozenset(_spellings(secrets))
        self._use(self._sessions[sid])

    def keep(self, sids: Collection[str]) -> None:
        """Take all sessions but these for ended, and forget what has been kept for long enough."""
        self._sessions = {sid: values for sid, values in self._sessions.items() if sid in sids and values}
        in_use: frozenset[str] = frozenset().union(*self._sessions.values())
        self._use(in_use)
        room = _KEPT_CHARACTERS
        before = time.monotonic() - self._kept_seconds
        for value, used in reversed(list(self._used.items())):
            if value not in in_use:
                room -= len(value) + _OVERHEAD
                if room < 0 or used <= before:
                    del self._used[value]

    def __call__(self, text: str) -> str:
        values = [*self._keys, *list(self._used)]  # listed in one step, whatever another thread adds meanwhile
        found: list[tuple[int, int]] = []
        seen, positions = text, list(range(len(text) + 1))
        for _ in range(_ROUNDS):
            found += _spans(seen, positions, values)
            if "\\" not in seen:
                break
            seen, positions = _unescaped(seen, positions)
        return _without(text, found)

    def _use(self, values: Iterable[str]) -> None:
        now = time.monotonic()
        for value in values:
            self._used.pop(value, None)
            self._used[value] = now


def _spellings(value: Any) -> Iterator[str]:
    """Give all that is to be hidden of a secret: each text in it, also as it stands in a URL, in bytes and in JSON."""
    for text in _texts(value):
        yield text
        yield quote(text, errors="surrogatepass")
        yield quote(text, safe="", errors="surrogatepass")
        yield quote_plus(text, errors="surrogatepass")
        if not text.isascii():
            yield text.encode(errors="surrogatepass").decode("latin-1")
            utf16 = text.encode("utf-16-be", errors="surrogatepass")
            yield "".join(chr(int.from_bytes(utf16[at : at + 2])) for at in range(0, len(utf16), 2))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        whole = str(value).strip()
        if len(whole) >= _SHORTEST:
            yield whole
        # A log may indent lines, or cut a text between two of them.
        yield from (line.strip() for line in _LINE_END.split(whole) if len(line.strip()) >= _SHORTEST_LINE)


def _spans(text: str, positions: list[int], values: Iterable[str]) -> Iterator[tuple[int, int]]:
    for value in values:
        at = text.find(value)
        while at >= 0:
            yield positions[at], positions[at + len(value)]
            at = text.find(value, at + 1)


def _unescaped(text: str, positions: list[int]) -> tuple[str, list[int]]:
    """Undo one round of escapes.

    Args:
        text: the text.
        positions: where each of its characters, and its end, is in the line that was to be logged.

    Returns:
        The text without the escapes, and the same of it.
    """
    parts: list[str] = []
    kept: list[int] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts += text[end : match.start()], _meant(match)
        kept += positions[end : match.start() + 1]
        end = match.end()
    return "".join(parts) + text[end:], kept + positions[end:]


def _meant(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    return chr(int(digits, 16)) if digits else _NAMED.get(escape[4], escape[4])


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start >= end:
            parts += text[end:start], _HIDDEN
        end = max(end, stop)
    return "".join(parts) + text[end:]
