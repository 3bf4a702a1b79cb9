"""What a database is made of: domains, tables and columns, with the words that questions use for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["key", "name", "category", "whole", "money", "day", "reference"]

SQL_TYPES: dict[Kind, str] = {
    "key": "INTEGER",
    "name": "TEXT",
    "category": "TEXT",
    "whole": "INTEGER",
    "money": "REAL",
    "day": "TEXT",
    "reference": "INTEGER",
}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: in SQL.
        label: in questions.
        kind: what it holds; days are texts like 2024-05-31.
        values: the values of a category; the first words of a name.
        endings: the second words of a name.
        low, high: the range of a number, inclusive; for a day with `after`, that many days later.
        after: the column of the same row that this day follows.
        target: the table that a reference points to.
        nulls: the share of rows without a value.
    """

    name: str
    label: str
    kind: Kind
    values: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    after: str = ""
    target: str = ""
    nulls: float = 0.0

    def thresholds(self) -> tuple[int, ...]:
        """Return round numbers inside the range that questions compare with and that values are often equal to."""
        return tuple(sorted({self.low + (self.high - self.low) * part // 8 for part in range(2, 7)}))


@dataclass(frozen=True)
class Table:
    """One table; its name is the plural of `noun`."""

    name: str
    noun: str
    rows: int
    columns: tuple[Column, ...]

    @property
    def plural(self) -> str:
        """The table's name as words of a sentence."""
        return self.name.replace("_", " ")

    def of_kind(self, *kinds: Kind) -> list[Column]:
        """Return the columns of these kinds, in order."""
        return [column for column in self.columns if column.kind in kinds]

    def column(self, name: str) -> Column:
        """Return a column by name.

        Raises:
            KeyError: the table has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @cached_property
    def title(self) -> Column | None:
        """The column that names a row for people, None where rows only have a number."""
        return next(iter(self.of_kind("name")), None)


@dataclass(frozen=True)
class Link:
    """A reference from one table's rows to another's."""

    child: Table
    column: Column
    parent: Table


@dataclass(frozen=True)
class Domain:
    """A business with its tables, each after the ones it refers to."""

    name: str
    about: str
    tables: tuple[Table, ...]

    def table(self, name: str) -> Table | None:
        """Return a table by name, in whatever case it is written; None if there is none."""
        return next((table for table in self.tables if table.name == name.strip().lower()), None)

    def links(self) -> Iterator[Link]:
        """Yield every reference between tables."""
        for child in self.tables:
            for column in child.of_kind("reference"):
                parent = self.table(column.target)
                assert parent is not None, f"{self.name}.{child.name}.{column.name} refers to nothing"
                yield Link(child, column, parent)


def key() -> Column:
    """Return the primary key that every table starts with."""
    return Column("id", "id", "key")


def name(column: str, label: str, words: tuple[str, ...], endings: tuple[str, ...]) -> Column:
    """Return the column that names a row: a word and an ending, no two rows alike."""
    return Column(column, label, "name", values=words, endings=endings)


def category(column: str, label: str, *values: str, nulls: float = 0.0) -> Column:
    """Return a column with a handful of values."""
    return Column(column, label, "category", values=values, nulls=nulls)


def whole(column: str, label: str, low: int, high: int, nulls: float = 0.0) -> Column:
    """Return a column of whole numbers."""
    return Column(column, label, "whole", low=low, high=high, nulls=nulls)


def money(column: str, label: str, low: int, high: int, nulls: float = 0.0) -> Column:
    """Return a column of amounts of money, in steps of 0.50."""
    return Column(column, label, "money", low=low, high=high, nulls=nulls)


def day(column: str, label: str) -> Column:
    """Return a column of days within the three years that all databases cover."""
    return Column(column, label, "day")


def later(column: str, label: str, after: str, low: int, high: int, nulls: float = 0.0) -> Column:
    """Return a column of days that follow another column's day by `low` to `high` days."""
    return Column(column, label, "day", low=low, high=high, after=after, nulls=nulls)


def reference(target: str, column: str, label: str) -> Column:
    """Return a foreign key."""
    return Column(column, label, "reference", target=target)
