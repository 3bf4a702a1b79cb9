"""Reads an HTML page the way a browser would, as far as the tests of the report ask: elements, attributes, text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "br", "link", "img", "hr", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def find(self, tag: str = "", **attributes: str) -> list[Element]:
        """Elements of a tag (any, if empty); `id_` and `class_` stand for the attributes, a class matches as a word."""
        return [element for element in self.walk() if tag in ("", element.tag) and element._has(attributes)]

    def _has(self, attributes: dict[str, str]) -> bool:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return all(value in self.attributes.get(name, "").split() for name, value in wanted.items())

    def text(self) -> str:
        """The text inside, white space run together."""
        return " ".join(self.raw().split())

    def raw(self) -> str:
        return "".join(child if isinstance(child, str) else child.raw() for child in self.children)

    def cells(self) -> list[list[str]]:
        """The rows of a table's body."""
        return [[cell.text() for cell in row.find("td")] for row in self.find("tr") if row.find("td")]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("page")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read_page(path: Path) -> Element:
    """Parses a page; fails where its elements are not closed in order."""
    builder = _Builder()
    builder.feed(path.read_text(encoding="utf-8"))
    builder.close()
    assert builder.open == [builder.root], f"<{builder.open[-1].tag}> is not closed"
    return builder.root
