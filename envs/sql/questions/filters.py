"""Conditions on rows, in SQL and in English."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from envs.sql.data import FIRST_DAY, LAST_DAY
from envs.sql.schema import Column, Table

Operator = Literal["=", ">", ">=", "<", "<=", "year", "null", "not null"]

_WORDS = {">": "over", ">=": "at least", "<": "under", "<=": "at most"}
_DAY_WORDS = {">": "after", ">=": "on or after", "<": "before", "<=": "on or before"}
_BOUNDARY: dict[Operator, Operator] = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
_OPPOSITE: dict[Operator, Operator] = {"null": "not null", "not null": "null"}
_FEW_ROWS = 20  # among so few, hardly any lie on a boundary or fulfil two conditions
_YEARS = range(FIRST_DAY.year, LAST_DAY.year + 1)


@dataclass(frozen=True)
class Filter:
    """A condition on one column; `value` is a category, a number, a day or a year, as the operator needs it."""

    column: Column
    operator: Operator
    value: str | int = ""

    def sql(self, prefix: str = "") -> str:
        """Return the condition in SQL; `prefix` is the table's alias with its dot."""
        name = f"{prefix}{self.column.name}"
        match self.operator:
            case "null":
                return f"{name} IS NULL"
            case "not null":
                return f"{name} IS NOT NULL"
            case "year":
                return f"strftime('%Y', {name}) = '{self.value}'"
            case _:
                value = f"'{self.value}'" if isinstance(self.value, str) else self.value
                return f"{name} {self.operator} {value}"

    def words(self) -> str:
        """Return the condition as a relative clause, to follow the plural of a table."""
        label = self.column.label
        match self.operator:
            case "null":
                return f"without a recorded {label}"
            case "not null":
                return f"with a recorded {label}"
            case "year":
                return f"whose {label} is in {self.value}"
            case "=":
                return f"whose {label} is '{self.value}'"
            case _:
                words = _DAY_WORDS if self.column.kind == "day" else _WORDS
                return f"whose {label} is {words[self.operator]} {self.value}"

    def near_misses(self) -> Iterator[Filter]:
        """Yield conditions that are easily mistaken for this one: the next value, the other side of the boundary."""
        if self.operator == "=":
            values = self.column.values
            yield replace(self, value=values[(values.index(str(self.value)) + 1) % len(values)])
        elif self.operator == "year":
            yield replace(self, value=int(self.value) - 1)
            yield replace(self, value=int(self.value) + 1)
        elif self.operator in _OPPOSITE:
            yield replace(self, operator=_OPPOSITE[self.operator])
        else:
            yield replace(self, operator=_BOUNDARY[self.operator])
            if isinstance(self.value, int):
                yield replace(self, value=self.value + 1)
                yield replace(self, value=self.value - 1)
            else:
                yield replace(self, value=str(date.fromisoformat(self.value) + timedelta(1)))


def filters(table: Table) -> Iterator[Filter]:
    """Yield the conditions that questions use on a table."""
    for column in table.columns:
        if column.kind == "category":
            yield from equalities(column)
        elif column.kind in ("whole", "money") and table.rows >= _FEW_ROWS:
            for place, value in enumerate(column.thresholds()):
                pair: tuple[Operator, Operator] = (">", "<=") if place % 2 else (">=", "<")
                yield from (Filter(column, operator, value) for operator in pair)
        elif column.kind == "day":
            yield from (Filter(column, "year", year) for year in _YEARS)
            yield from (Filter(column, ">=", f"{year}-04-01") for year in _YEARS)
            yield from (Filter(column, "<", f"{year}-09-01") for year in _YEARS)
        if column.nulls:
            yield Filter(column, "null")
            yield Filter(column, "not null")


def equalities(column: Column) -> Iterator[Filter]:
    """Yield one condition for every value of a category."""
    return (Filter(column, "=", value) for value in column.values)


def category_filters(table: Table) -> Iterator[Filter]:
    """Yield the conditions that one category has one value."""
    for column in table.of_kind("category"):
        yield from equalities(column)


def pairs(table: Table) -> Iterator[tuple[Filter, Filter]]:
    """Yield two conditions on different columns, the first on a category; none for a table too small for two."""
    if table.rows < _FEW_ROWS:
        return
    for first in category_filters(table):
        yield from ((first, second) for second in filters(table) if second.column != first.column)


def near_misses(conditions: tuple[Filter, ...]) -> Iterator[tuple[Filter, ...]]:
    """Yield the conditions with one dropped or mistaken."""
    for place, condition in enumerate(conditions):
        before, after = conditions[:place], conditions[place + 1 :]
        yield (*before, *after)
        yield from ((*before, mistaken, *after) for mistaken in condition.near_misses())


def where(conditions: Sequence[Filter], prefix: str = "", more: Sequence[str] = ()) -> str:
    """Return a WHERE clause with a leading space, or nothing when there is no condition."""
    parts = [*more, *(condition.sql(prefix) for condition in conditions)]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def a(words: str) -> str:
    """Return words with their indefinite article."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def described(plural: str, conditions: Sequence[Filter]) -> str:
    """Return the plural with its conditions: "loans whose channel is 'desk' and without a return date"."""
    return " ".join([plural, " and ".join(condition.words() for condition in conditions)]).strip()
