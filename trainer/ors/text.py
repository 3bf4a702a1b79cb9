"""Text that a tokenizer can encode.

JSON can carry half of a surrogate pair, as where a server cuts a text in the middle of an emoji or a model writes
`"\\ud83d"`; UTF-8 has no such thing, and a tokenizer raises on it. So all that comes from a server or from a model's
call and goes to a tokenizer goes through here.
"""

import re
from collections.abc import Mapping
from typing import Any

_SURROGATES = re.compile("[\ud800-\udfff]")


def encodable(value: Any) -> Any:
    """The same text, or the same value as JSON has them with every text in it, with U+FFFD for half of a pair."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value
