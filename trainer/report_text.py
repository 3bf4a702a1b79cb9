"""Text that a model or an environment wrote, made fit to be read on a page.

Escaping HTML is the template's work. This is about what escaping leaves in: terminal colours, control characters,
marks that reorder a line, halves of surrogate pairs, passwords in URLs, and sheer length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

KEPT_HEAD = 1400
KEPT_TAIL = 400
FOLD_CHARACTERS = 600
FOLD_LINES = 10
_PREVIEW = 90

# Everything a browser would obey or hide: C0 and C1 controls but tab and line feed, line separators, marks that turn
# the reading direction, tag characters, surrogates (which cannot be encoded at all).
_UNREADABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_USERINFO = re.compile(r"(?<=://)[^/\s@?#]*@")


@dataclass(frozen=True)
class Passage:
    """A text as the page shows it.

    Args:
        text: what is shown: the whole, or its beginning.
        tail: the end of a text that was cut, else empty.
        omitted: characters left out between `text` and `tail`.
        folded: whether the page hides it behind its first line.
        preview: one line that stands for a folded text.
    """

    text: str
    tail: str = ""
    omitted: int = 0
    folded: bool = False
    preview: str = ""


def readable(text: str) -> str:
    """Returns `text` with controls as visible symbols (ESC as U+241B) and the rest of the unreadable as \\uXXXX."""
    return _UNREADABLE.sub(_symbol, text.replace("\r\n", "\n"))


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def passage(text: str) -> Passage:
    """Cuts a text to its beginning and end where it is long, and says how many characters went."""
    omitted = max(0, len(text) - KEPT_HEAD - KEPT_TAIL)
    head = text[:KEPT_HEAD] if omitted else text
    tail = text[-KEPT_TAIL:] if omitted else ""
    folded = len(head) > FOLD_CHARACTERS or head.count("\n") >= FOLD_LINES
    return Passage(head, tail, omitted, folded, one_line(head, _PREVIEW) if folded else "")


def one_line(text: str, limit: int) -> str:
    """Returns the text on one line of at most `limit` characters, an ellipsis where it was cut."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


def without_userinfo(text: str) -> str:
    """Returns a message with `user:password@` taken out of every URL in it."""
    return _USERINFO.sub("", text)


def public_url(url: str) -> str:
    """Returns a URL without what could be a credential: user and password, query, fragment. A catalog name stays."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
