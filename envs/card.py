"""The README of an environment, read as far as it can be: what is wrong with it keeps no server from starting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """What a README says about its environment.

    Args:
        matter: the names and values of its front matter, {} where it has none that can be read.
        body: the text below the front matter.
        problem: one line that says what could not be read, "" where all of it could.
    """

    matter: dict[str, Any] = field(default_factory=dict)
    body: str = ""
    problem: str = ""

    @property
    def summary(self) -> str:
        """The first line of text below the title."""
        lines = (line.strip() for line in self.body.splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")

    @property
    def paragraph(self) -> str:
        """The first paragraph of text, in one line."""
        paragraphs = (" ".join(block.split()) for block in re.split(r"\n\s*\n", self.body))
        return next((text for text in paragraphs if text and not text.startswith(("#", "|", "```"))), "")


def read(home: Path) -> Card:
    """Read the README.md of an environment's folder; a folder without one has an empty card."""
    readme = home / "README.md"
    try:
        raw = readme.read_bytes()
    except FileNotFoundError:
        return Card()
    except OSError as error:
        return Card(problem=f"{readme} cannot be read: {(error.strerror or str(error)).lower()}")
    try:
        text, problem = raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        text = raw.decode("utf-8-sig", errors="replace")
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"{readme}:{line}: not UTF-8, other characters are shown as \ufffd"
    text = text.replace("\r\n", "\n")
    found = _FRONT_MATTER.match(text)
    if found is None:
        return Card(body=text, problem=problem)
    matter, wrong = _matter(found[1])
    return Card(matter, text[found.end() :], problem or (wrong and f"{readme}: {wrong}, taken as empty"))


def _matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter's names and values, and what is wrong with it."""
    try:
        given = yaml.safe_load(text)
    except Exception as error:  # YAML's own, and what a date or a number that cannot be raises in the libraries below
        return {}, f"the front matter is no YAML ({' '.join(str(error).split())})"
    if given is None:  # nothing, or comments only
        return {}, ""
    if not isinstance(given, dict):
        return {}, "the front matter is no list of names and values"
    return given, ""
