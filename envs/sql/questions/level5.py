"""Level 5: window functions and set operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal, Self

from envs.sql.data import FIRST_DAY, LAST_DAY
from envs.sql.questions import aggregates
from envs.sql.questions.base import Question
from envs.sql.questions.filters import Filter, category_filters, described, filters, near_misses, where
from envs.sql.questions.level3 import join, links_to_named
from envs.sql.schema import Column, Domain, Link, Table

SetOperator = Literal["UNION", "INTERSECT", "EXCEPT"]

_MOST_CHILDREN = 8
_NEXT: dict[SetOperator, SetOperator] = {"UNION": "INTERSECT", "INTERSECT": "UNION", "EXCEPT": "INTERSECT"}


@dataclass(frozen=True)
class TopPerGroup(Question):
    """The rows with the highest number within each value of a category."""

    table: Table
    category: Column
    number: Column
    places: int
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            if table.title:
                for category in aggregates.groupings(table):
                    for number in aggregates.numbers(table, nulls=False):
                        for places in (1, 2, 3):
                            yield cls(table, category, number, places, ())
                            for condition in filters(table):
                                if condition.column not in (category, number):
                                    yield cls(table, category, number, places, (condition,))

    def sql(self) -> str:
        assert self.table.title
        group, title, number = self.category.name, self.table.title.name, self.number.name
        window = f"PARTITION BY {group} ORDER BY {number} DESC, {title}"
        return (
            f"SELECT {group}, {title}, {number} FROM (SELECT {group}, {title}, {number}, ROW_NUMBER() OVER ({window}) "
            f"AS place FROM {self.table.name}{where(self.conditions)}) WHERE place <= {self.places}"
        )

    def wordings(self) -> tuple[str, ...]:
        assert self.table.title
        group, title, number = self.category.label, self.table.title.label, self.number.label
        what = described(self.table.plural, self.conditions)
        tie = f"where the {number} is equal, the {title} that comes first in the alphabet goes first"
        return (
            f"For each {group}, find the top {self.places} of the {what} by {number} ({tie}). "
            f"Show {group}, {title} and {number}.",
            f"Rank the {what} within each {group} by {number} from highest to lowest ({tie}) and keep the first "
            f"{self.places}. Show {group}, {title} and {number}.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, places=self.places + 1)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class RunningTotal(Question):
    """The sum of a number by month, added up over time."""

    ordered = True

    table: Table
    day: Column
    number: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            if not table.title:
                for day in (column for column in table.of_kind("day") if not column.nulls):
                    for number in aggregates.numbers(table, nulls=False):
                        usable = (condition for condition in filters(table) if condition.column not in (day, number))
                        yield from (cls(table, day, number, (condition,)) for condition in usable)

    def sql(self) -> str:
        months = (
            f"SELECT strftime('%Y-%m', {self.day.name}) AS month, SUM({self.number.name}) AS total "
            f"FROM {self.table.name}{where(self.conditions)} GROUP BY month"
        )
        return f"SELECT month, SUM(total) OVER (ORDER BY month) FROM ({months}) ORDER BY month"

    def wordings(self) -> tuple[str, ...]:
        what, day, number = described(self.table.plural, self.conditions), self.day.label, self.number.label
        return (
            f"Show the running total of the {number} of the {what} by month of the {day}: the month (YYYY-MM) and the "
            f"total up to and including it, in order of time, only months that have any.",
            f"For each month (YYYY-MM) of the {day} that has any {what}, show the month and the {number} added up from "
            f"the first month to this one, earliest month first.",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class MonthlyChange(Question):
    """How many rows there are in each month of a year, and the change from the month before."""

    ordered = True

    table: Table
    day: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            if not table.title:
                for day in table.of_kind("day"):
                    for year in range(FIRST_DAY.year, LAST_DAY.year + 1):
                        in_year = Filter(day, "year", year)
                        yield cls(table, day, (in_year,))
                        yield from (cls(table, day, (in_year, other)) for other in category_filters(table))

    def sql(self) -> str:
        months = (
            f"SELECT strftime('%Y-%m', {self.day.name}) AS month, COUNT(*) AS amount "
            f"FROM {self.table.name}{where(self.conditions)} GROUP BY month"
        )
        change = "amount - LAG(amount) OVER (ORDER BY month)"
        return f"SELECT month, amount, {change} FROM ({months}) ORDER BY month"

    def wordings(self) -> tuple[str, ...]:
        what, day = described(self.table.plural, self.conditions), self.day.label
        return (
            f"For each month (YYYY-MM) of the {day}, show the month, the number of {what}, and the change from the "
            f"previous month shown (NULL for the first), in order of time. Leave out months without any.",
            f"Count the {what} by month (YYYY-MM) of the {day} and compare each month with the one listed before it: "
            f"show month, count and how many more that is than before (negative for fewer, NULL in the first row), "
            f"earliest month first, empty months left out.",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class NamesInSets(Question):
    """Which named rows are referred to by rows of two kinds: by either, by both, by the first but not the second."""

    first: tuple[Link, Filter]
    operator: SetOperator
    second: tuple[Link, Filter]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        # Where each row is referred to by many, every row is in every set.
        links = [link for link in links_to_named(domain) if link.child.rows <= _MOST_CHILDREN * link.parent.rows]
        sides = [(link, condition) for link in links for condition in category_filters(link.child)]
        operators: tuple[SetOperator, ...] = ("UNION", "INTERSECT")
        for place, (first, second) in enumerate(permutations(sides, 2)):
            if first[0].parent == second[0].parent:
                yield cls(first, "EXCEPT", second)
                if sides.index(first) < sides.index(second):
                    yield cls(first, operators[place % 2], second)

    def sql(self) -> str:
        return f" {self.operator} ".join(self._side(*side) for side in (self.first, self.second))

    @staticmethod
    def _side(link: Link, condition: Filter) -> str:
        assert link.parent.title
        return f"SELECT p.{link.parent.title.name} FROM {join(link)}{where([condition], 'c.')}"

    def wordings(self) -> tuple[str, ...]:
        parent = self.first[0].parent
        assert parent.title
        one, two = (described(link.child.plural, [condition]) for link, condition in (self.first, self.second))
        how = {
            "UNION": f"{one}, or {two}, or both",
            "INTERSECT": f"both {one} and {two}",
            "EXCEPT": f"{one} but no {two}",
        }[self.operator]
        once = f"each {parent.title.label} once"
        return (
            f"Which {parent.plural} have {how}? Show {once}.",
            f"List the {parent.plural} that have {how}: the {parent.title.label} only, {once}.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, operator=_NEXT[self.operator])
        yield replace(self, second=(self.second[0], next(self.second[1].near_misses())))
        yield replace(self, first=(self.first[0], next(self.first[1].near_misses())))


@dataclass(frozen=True)
class ShareOfTotal(Question):
    """What part of the sum of a number each value of a category has, in percent."""

    table: Table
    category: Column
    number: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            if not table.title:
                for category in aggregates.groupings(table):
                    for number in aggregates.numbers(table, nulls=False):
                        for condition in filters(table):
                            if condition.column not in (category, number):
                                yield cls(table, category, number, (condition,))

    def sql(self) -> str:
        group, number = self.category.name, self.number.name
        share = f"ROUND(100.0 * SUM({number}) / SUM(SUM({number})) OVER (), 2)"
        return f"SELECT {group}, {share} FROM {self.table.name}{where(self.conditions)} GROUP BY {group}"

    def wordings(self) -> tuple[str, ...]:
        what, group, number = described(self.table.plural, self.conditions), self.category.label, self.number.label
        return (
            f"What share of the total {number} of the {what} does each {group} have? Show the {group} and the "
            f"percentage (two decimals).",
            f"Split the total {number} of the {what} by {group}: show each {group} and its part of the total in "
            f"percent (two decimals).",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


SHAPES: tuple[type[Question], ...] = (TopPerGroup, RunningTotal, MonthlyChange, NamesInSets, ShareOfTotal)
