"""Level 2: aggregate with grouping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from envs.sql.questions import aggregates
from envs.sql.questions.aggregates import Function
from envs.sql.questions.base import Question
from envs.sql.questions.filters import Filter, described, filters, near_misses, where
from envs.sql.schema import Column, Domain, Table


@dataclass(frozen=True)
class AggregateBy(Question):
    """An aggregate of a number for each value of a category."""

    table: Table
    category: Column
    number: Column
    function: Function
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            for category in aggregates.groupings(table):
                for number in aggregates.numbers(table):
                    for function in aggregates.functions(table):
                        yield cls(table, category, number, function, ())
                        for condition in filters(table):
                            if condition.column not in (category, number):
                                yield cls(table, category, number, function, (condition,))

    def sql(self) -> str:
        value = aggregates.sql(self.function, self.number.name)
        group = self.category.name
        return f"SELECT {group}, {value} FROM {self.table.name}{where(self.conditions)} GROUP BY {group}"

    def wordings(self) -> tuple[str, ...]:
        what, group = described(self.table.plural, self.conditions), self.category.label
        value, remark = aggregates.words(self.function, self.number), aggregates.rounding(self.function)
        if not self.conditions:  # then every group has rows
            return (
                f"For each {group}, show the {group} and the {value}{remark} of the {what}.",
                f"What is the {value}{remark} of the {what}, by {group}? Show {group} and value.",
            )
        return (
            f"For each {group} that has any {what}, show the {group} and the {value}{remark} of those "
            f"{self.table.plural}.",
            f"What is the {value}{remark} of the {what}, by {group}? Show {group} and value, and leave out every "
            f"{group} without any.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, function=aggregates.NEXT[self.function])
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class CountBy(Question):
    """How many rows fulfil a condition for each value of a category."""

    table: Table
    category: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            for category in aggregates.groupings(table):
                for condition in filters(table):
                    if condition.column != category:
                        yield cls(table, category, (condition,))

    def sql(self) -> str:
        group = self.category.name
        return f"SELECT {group}, COUNT(*) FROM {self.table.name}{where(self.conditions)} GROUP BY {group}"

    def wordings(self) -> tuple[str, ...]:
        what, group = described(self.table.plural, self.conditions), self.category.label
        return (
            f"For each {group} that has any {what}, show the {group} and their number.",
            f"Count the {what} by {group}. Show {group} and count, and leave out every {group} without any.",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class SortedCountBy(CountBy):
    """The same, with the largest group first."""

    ordered = True

    def sql(self) -> str:
        return f"{super().sql()} ORDER BY COUNT(*) DESC, {self.category.name}"

    def wordings(self) -> tuple[str, ...]:
        group = self.category.label
        order = f"Sort from the largest count to the smallest, equal counts by {group} from A to Z."
        return tuple(f"{wording} {order}" for wording in super().wordings())


@dataclass(frozen=True)
class LargestGroup(CountBy):
    """Which value of a category most rows have, and how many."""

    def sql(self) -> str:
        return f"{super().sql()} ORDER BY COUNT(*) DESC, {self.category.name} LIMIT 1"

    def wordings(self) -> tuple[str, ...]:
        what, group = described(self.table.plural, self.conditions), self.category.label
        tie = "On a tie, take the first in alphabetical order."
        return (
            f"Which {group} is the most frequent among the {what}? Show the {group} and its count. {tie}",
            f"Among the {what}, which {group} occurs most often, and how often? {tie}",
        )


@dataclass(frozen=True)
class CountByYear(Question):
    """How many rows fulfil a condition in each year."""

    table: Table
    day: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            for day in table.of_kind("day"):
                if not day.nulls:
                    usable = (condition for condition in filters(table) if condition.column != day)
                    yield from (cls(table, day, (condition,)) for condition in usable)

    def sql(self) -> str:
        year = f"strftime('%Y', {self.day.name})"
        return f"SELECT {year}, COUNT(*) FROM {self.table.name}{where(self.conditions)} GROUP BY {year}"

    def wordings(self) -> tuple[str, ...]:
        what, day = described(self.table.plural, self.conditions), self.day.label
        return (
            f"For each year of the {day} that has any {what}, show the year and their number.",
            f"How many {what} are there per year of the {day}? Show year and count, and leave out years without any.",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


SHAPES: tuple[type[Question], ...] = (AggregateBy, CountBy, SortedCountBy, LargestGroup, CountByYear)
