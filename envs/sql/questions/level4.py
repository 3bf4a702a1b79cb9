"""Level 4: subqueries, HAVING, arithmetic with dates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self

from envs.sql.data import FIRST_DAY, LAST_DAY
from envs.sql.questions import aggregates
from envs.sql.questions.base import Question
from envs.sql.questions.filters import Filter, a, category_filters, described, filters, near_misses, where
from envs.sql.questions.level3 import join, links_to_named
from envs.sql.schema import Column, Domain, Link, Table

_PERIODS = (("05-01", 30), ("07-01", 30), ("10-01", 30), ("12-01", 30), ("07-01", 91), ("10-01", 92), ("12-01", 91))
"""Ends of periods and their days: each begins after a first of the month, on which many rows lie."""


@dataclass(frozen=True)
class AboveAverage(Question):
    """Which rows fulfil a condition and lie above the average of all rows."""

    table: Table
    number: Column
    conditions: tuple[Filter, ...]
    comparison: Literal[">", "<"] = ">"
    average_of_all: bool = True

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            usable = filters(table) if table.title else category_filters(table)
            conditions = list(usable)
            for number in aggregates.numbers(table):
                for condition in conditions:
                    if condition.column != number:
                        yield cls(table, number, (condition,), ">")
                        yield cls(table, number, (condition,), "<")

    @property
    def _shown(self) -> Column:
        return self.table.title or self.table.columns[0]

    def sql(self) -> str:
        inner = where(() if self.average_of_all else self.conditions)
        average = f"(SELECT AVG({self.number.name}) FROM {self.table.name}{inner})"
        compared = f"{self.number.name} {self.comparison} {average}"
        return f"SELECT {self._shown.name} FROM {self.table.name}{where(self.conditions, more=[compared])}"

    def wordings(self) -> tuple[str, ...]:
        what, label, shown = described(self.table.plural, self.conditions), self.number.label, self._shown.label
        side = "above" if self.comparison == ">" else "below"
        return (
            f"Among the {what}, show the {shown} of those whose {label} is {side} the average {label} of all "
            f"{self.table.plural}.",
            f"Show the {shown} of the {what} that are {side} the average {label} of all {self.table.plural}.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, average_of_all=False)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class ParentsHaving(Question):
    """Which named rows are referred to by at least so many rows."""

    link: Link
    least: int
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for link in links_to_named(domain):
            usual = link.child.rows / link.parent.rows
            for condition in filters(link.child):
                expected = usual / 4 if condition.operator == "=" else usual / 2
                yield from (cls(link, least, (condition,)) for least in {2, max(2, round(expected))})

    def sql(self) -> str:
        assert self.link.parent.title
        tables = f"{join(self.link)}{where(self.conditions, 'c.')}"
        return f"SELECT p.{self.link.parent.title.name} FROM {tables} GROUP BY p.id HAVING COUNT(*) >= {self.least}"

    def wordings(self) -> tuple[str, ...]:
        parent = self.link.parent
        assert parent.title
        children = described(self.link.child.plural, self.conditions)
        return (
            f"Which {parent.plural} have at least {self.least} {children}? Show the {parent.title.label}.",
            f"Show the {parent.title.label} of every {parent.noun} with {self.least} or more {children}.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, least=self.least + 1)
        yield replace(self, least=self.least - 1)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class ParentsWithout(Question):
    """Which named rows are not referred to by any row that fulfils a condition."""

    link: Link
    conditions: tuple[Filter, ...]
    without: bool = True

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        return (cls(link, (condition,)) for link in links_to_named(domain) for condition in filters(link.child))

    def sql(self) -> str:
        assert self.link.parent.title
        inner = where(self.conditions, "c.", [f"c.{self.link.column.name} = p.id"])
        exists = f"{'NOT ' if self.without else ''}EXISTS (SELECT 1 FROM {self.link.child.name} c{inner})"
        return f"SELECT p.{self.link.parent.title.name} FROM {self.link.parent.name} p WHERE {exists}"

    def wordings(self) -> tuple[str, ...]:
        parent = self.link.parent
        assert parent.title
        children = described(self.link.child.plural, self.conditions)
        return (
            f"Which {parent.plural} have no {children}? Show the {parent.title.label}.",
            f"Show the {parent.title.label} of every {parent.noun} that has not a single one of the {children}.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, without=False)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class DaysBetween(Question):
    """How many rows have so many days between two of their dates."""

    table: Table
    end: Column
    comparison: Literal[">", ">=", "<", "<="]
    days: int
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for table in domain.tables:
            for end in (column for column in table.of_kind("day") if column.after):
                for place, days in enumerate(end.thresholds()):
                    comparison: Literal[">", "<="] = ">" if place % 2 else "<="
                    yield cls(table, end, comparison, days, ())
                    yield from (cls(table, end, comparison, days, (other,)) for other in category_filters(table))

    def sql(self) -> str:
        days = f"julianday({self.end.name}) - julianday({self.end.after})"
        more = [f"{days} {self.comparison} {self.days}"]
        return f"SELECT COUNT(*) FROM {self.table.name}{where(self.conditions, more=more)}"

    def wordings(self) -> tuple[str, ...]:
        what = described(self.table.plural, self.conditions)
        start, end = self.table.column(self.end.after).label, self.end.label
        amount = f"{'more than' if self.comparison == '>' else 'at most'} {self.days} days"
        return (
            f"How many {what} have {a(end)} {amount} after the {start}?",
            f"Count the {what} with {amount} between {start} and {end}.",
        )

    def near_misses(self) -> Iterator[Question]:
        other: dict[str, Literal[">=", "<"]] = {">": ">=", "<=": "<"}
        if self.comparison in other:
            yield replace(self, comparison=other[self.comparison])
        yield replace(self, days=self.days + 1)
        yield replace(self, days=self.days - 1)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class WithinDays(Question):
    """How many rows fall into a number of days up to a date."""

    table: Table
    day: Column
    until: str
    days: int
    bounds: tuple[str, str] = (">", "<=")

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        years = range(FIRST_DAY.year, LAST_DAY.year + 1)
        ends = [(f"{year}-{end}", days) for year in years for end, days in _PERIODS]
        for table in domain.tables:
            if not table.title:
                for day in (column for column in table.of_kind("day") if not column.after):
                    yield from (cls(table, day, until, days) for until, days in ends)

    def sql(self) -> str:
        start = f"{self.day.name} {self.bounds[0]} date('{self.until}', '-{self.days} days')"
        end = f"{self.day.name} {self.bounds[1]} '{self.until}'"
        return f"SELECT COUNT(*) FROM {self.table.name}{where((), more=[start, end])}"

    def wordings(self) -> tuple[str, ...]:
        plural, day = self.table.plural, self.day.label
        period = f"in the {self.days} days that end with {self.until}"
        return (
            f"How many {plural} have {a(day)} {period} (that day included)?",
            f"Count the {plural} whose {day} is {period}, that day included.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, bounds=(">", "<"))
        yield replace(self, bounds=(">=", "<="))
        yield replace(self, days=self.days + 1)
        yield replace(self, days=self.days - 1)


SHAPES: tuple[type[Question], ...] = (AboveAverage, ParentsHaving, ParentsWithout, DaysBetween, WithinDays)
