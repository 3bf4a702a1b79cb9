"""Docstrings from text that strangers wrote, such that `transformers.utils.get_json_schema` reads back what was meant.

`get_json_schema` (5.24) finds the parts of a docstring with regular expressions: the words that head a section end
the part before them wherever they stand; a line that looks like `name: text` begins a parameter; a parameter's text
that ends in a list of choices becomes an enum, or an exception. So a parameter's text is kept on one line, and those
words get a space before their colon. Nothing else changes but white space, long runs of which would cost those
expressions quadratic time, and what no tokenizer can encode.
"""

import re
from collections.abc import Mapping

from trainer.ors.text import encodable

_HEADINGS = re.compile(r"(Args|Returns|Raises):")
_CHOICES = re.compile(r"(\(choices):", re.IGNORECASE)
_LONG_RUN = re.compile(r"\s{40,}")


def docstring(description: str, parameters: Mapping[str, tuple[bool, str]]) -> str:
    """A Google-style docstring.

    Args:
        description: any text with something in it besides white space; its line breaks are kept.
        parameters: for each parameter's name, whether it is required, and any text with something in it besides white
            space; line breaks become spaces.
    """
    lines = [_paragraphs(description)]
    if parameters:
        lines += ["", "Args:"]
    for name, (required, text) in parameters.items():
        # The word in brackets also keeps a parameter called `Returns` from being taken for the heading.
        lines.append(f"    {name} ({'required' if required else 'optional'}): {_one_line(text)}")
    return "\n".join(lines)


def _paragraphs(text: str) -> str:
    lines: list[str] = []
    for line in map(str.rstrip, text.splitlines()):
        if line or (lines and lines[-1]):
            lines.append(_LONG_RUN.sub(" " * 40, line.expandtabs(4)))
    return _neutral("\n".join(lines).strip())


def _one_line(text: str) -> str:
    return _CHOICES.sub(r"\1 :", _neutral(" ".join(text.split())))


def _neutral(text: str) -> str:
    return _HEADINGS.sub(r"\1 :", encodable(text))
