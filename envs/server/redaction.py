"""Takes keys and secrets out of text, however they were quoted and escaped on their way there.

What is in a log line has often been through `repr`, `json.dumps` or the log's own renderer, or through several of them.
So the line is searched as it is, and again after each of several rounds of undoing its escapes.
"""

from __future__ import annotations

import re
import time
from collections import Counter
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
    """Takes the server's keys and its sessions' secrets out of any text, which may come from any thread.

    What belonged to a session is hidden for some minutes after its end as well, since what it began may still log. The
    memory that this takes is bounded: what ended first is forgotten first.

    Args:
        keys: values that are hidden as long as the server runs.
        kept_seconds: time for which a secret is hidden after the end of its session.
    """

    def __init__(self, keys: Iterable[str] = (), kept_seconds: float = _KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._sessions: dict[str, frozenset[str]] = {}
        self._in_use: Counter[str] = Counter()
        self._ended: dict[str, float] = {}
        """When spellings that no session uses any more were last used; the latest come last."""
        self._hidden: dict[str, dict[str, None]] = {}
        """All spellings, by their first characters: how long a line takes does not depend on how many there are."""
        self._use(frozenset(_spellings(list(keys))))

    def add(self, sid: str, secrets: Mapping[str, Any]) -> None:
        """Hide the secrets of a session that is about to be opened, from now on."""
        values = frozenset(_spellings(secrets))
        self._use(values)
        self._leave(self._sessions.get(sid, frozenset()))
        self._sessions[sid] = values

    def keep(self, sids: Collection[str]) -> None:
        """Take all sessions but these for ended, and forget what has been kept for long enough."""
        for sid in [sid for sid in self._sessions if sid not in sids]:
            self._leave(self._sessions.pop(sid))
        room = _KEPT_CHARACTERS
        before = time.monotonic() - self._kept_seconds
        for value, used in reversed(list(self._ended.items())):
            room -= len(value) + _OVERHEAD
            if room < 0 or used <= before:
                del self._ended[value]
                self._forget(value)

    def __call__(self, text: str) -> str:
        found: list[tuple[int, int]] = []
        seen, positions = text, list(range(len(text) + 1))
        for _ in range(_ROUNDS):
            found += _spans(seen, positions, self._hidden)
            if "\\" not in seen:
                break
            seen, positions = _unescaped(seen, positions)
        return _without(text, found)

    def _use(self, values: Collection[str]) -> None:
        for value in values:
            self._hidden.setdefault(value[:_SHORTEST], {})[value] = None
            self._ended.pop(value, None)
        self._in_use.update(values)

    def _leave(self, values: Collection[str]) -> None:
        now = time.monotonic()
        for value in values:
            self._in_use[value] -= 1
            if not self._in_use[value]:
                del self._in_use[value]
                self._ended[value] = now

    def _forget(self, value: str) -> None:
        alike = self._hidden[value[:_SHORTEST]]
        del alike[value]
        if not alike:
            del self._hidden[value[:_SHORTEST]]


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


def _spans(text: str, positions: list[int], hidden: Mapping[str, Mapping[str, None]]) -> Iterator[tuple[int, int]]:
    for at in range(len(text) - _SHORTEST + 1):
        # Listed in one step, whatever another thread adds meanwhile.
        for value in list(hidden.get(text[at : at + _SHORTEST], ())):
            if text.startswith(value, at):
                yield positions[at], positions[at + len(value)]


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
