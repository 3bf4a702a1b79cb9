"""Further headers of a check, as a private Space or a gateway in front of a server asks for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_OWN = {"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}
_OWN |= {"x-api-key", "x-session-id"}


class HeaderError(Exception):
    """A header cannot be sent; the message is one line for a person and never holds its value."""


def parse(lines: Sequence[str], hf_token: str | None = None) -> dict[str, str]:
    """Return headers by their lower-case names.

    Args:
        lines: each "Name: value", in ASCII.
        hf_token: of the Hugging Face Hub, for a private Space: short for `Authorization: Bearer`.

    Raises:
        HeaderError: a line is no header, one is given twice, or it is one that the check itself sets.
    """
    given = list(lines)
    if hf_token is not None:
        if not re.fullmatch(r"[\x21-\x7e]+", hf_token.strip()):
            raise HeaderError("the token is empty, or holds what no token holds")
        given.append(f"Authorization: Bearer {hf_token.strip()}")
    headers: dict[str, str] = {}
    for number, line in enumerate(given, 1):
        match = _HEADER.fullmatch(line)
        if match is None:
            raise HeaderError(f"header {number} is not 'Name: value' in plain characters")
        name = match[1].lower()
        if name in headers:
            raise HeaderError(f"the header {match[1]} is given twice")
        if name in _OWN:
            hint = "give --api-key" if name == "x-api-key" else "leave it out"
            raise HeaderError(f"the check sets the header {match[1]} itself: {hint}")
        headers[name] = match[2]
    return headers


def key(text: str) -> str:
    """Return an API key as it is sent, without white space round it.

    Raises:
        HeaderError: it is empty, or holds what a header cannot carry.
    """
    found = text.strip()
    if not re.fullmatch(r"[\x20-\x7e]+", found):
        raise HeaderError("the API key is empty, or holds characters that a header cannot carry; use printable ASCII")
    return found


def secrets(value: str) -> list[str]:
    """Return what of a header's value must not be shown: all of it, and what follows a scheme such as Bearer."""
    scheme, _, credentials = value.partition(" ")
    return [value, credentials.strip()] if credentials.strip() else [scheme]
