"""Level 1: filter and count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from envs.sql.questions.base import Question
from envs.sql.questions.filters import Filter, described, filters, near_misses, pairs, where
from envs.sql.schema import Domain, Table


@dataclass(frozen=True)
class CountWhere(Question):
    """How many rows fulfil one condition."""

    table: Table
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        return (cls(table, (condition,)) for table in domain.tables for condition in filters(table))

    def sql(self) -> str:
        return f"SELECT COUNT(*) FROM {self.table.name}{where(self.conditions)}"

    def wordings(self) -> tuple[str, ...]:
        what = described(self.table.plural, self.conditions)
        return (f"How many {what} are there?", f"Count the {what}.", f"What is the number of {what}?")

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class CountWhereBoth(CountWhere):
    """How many rows fulfil two conditions."""

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        return (cls(table, pair) for table in domain.tables for pair in pairs(table))


@dataclass(frozen=True)
class NamesWhere(Question):
    """Which rows fulfil a condition, by name."""

    table: Table
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        tables = (table for table in domain.tables if table.title)
        return (cls(table, (condition,)) for table in tables for condition in filters(table))

    def sql(self) -> str:
        assert self.table.title
        return f"SELECT {self.table.title.name} FROM {self.table.name}{where(self.conditions)}"

    def wordings(self) -> tuple[str, ...]:
        assert self.table.title
        label, what = self.table.title.label, described(self.table.plural, self.conditions)
        return (f"Show the {label} of all {what}.", f"List the {what}, by {label} only.")

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class SortedNamesWhere(NamesWhere):
    """Which rows fulfil a condition, by name and in the order of the names."""

    ordered = True

    def sql(self) -> str:
        assert self.table.title
        return f"{super().sql()} ORDER BY {self.table.title.name}"

    def wordings(self) -> tuple[str, ...]:
        assert self.table.title
        label, what = self.table.title.label, described(self.table.plural, self.conditions)
        return (
            f"Show the {label} of all {what}, in alphabetical order.",
            f"List the {what}, by {label} only, sorted from A to Z.",
        )


SHAPES: tuple[type[Question], ...] = (CountWhere, CountWhereBoth, NamesWhere, SortedNamesWhere)
