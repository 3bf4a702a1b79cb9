"""Sums, averages and extremes of a column, in SQL and in English."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from envs.sql.schema import Column, Table

Function = Literal["AVG", "SUM", "MIN", "MAX"]

WORDS: dict[Function, str] = {"AVG": "average", "SUM": "total", "MIN": "lowest", "MAX": "highest"}
NEXT: dict[Function, Function] = {"AVG": "MAX", "SUM": "AVG", "MIN": "MAX", "MAX": "MIN"}

ROUNDED = " (two decimals)"


def numbers(table: Table, *, nulls: bool = True) -> list[Column]:
    """Return the columns that can be averaged; those with gaps only where `nulls` allows."""
    return [column for column in table.of_kind("whole", "money") if nulls or not column.nulls]


def groupings(table: Table) -> list[Column]:
    """Return the categories to group by: those without gaps, so that no group is nameless."""
    return [column for column in table.of_kind("category") if not column.nulls]


def functions(table: Table) -> Iterator[Function]:
    """Yield what can be asked about a table's numbers; sums only of events, since a sum of ages means nothing."""
    yield from ("AVG", "MIN", "MAX")
    if not table.title:
        yield "SUM"


def sql(function: Function, column: str) -> str:
    """Return the aggregate in SQL; averages have two decimals."""
    return f"ROUND(AVG({column}), 2)" if function == "AVG" else f"{function}({column})"


def words(function: Function, column: Column) -> str:
    """Return the aggregate in English: "average price"."""
    return f"{WORDS[function]} {column.label}"


def rounding(function: Function) -> str:
    """Return the remark on decimals that a wording ends with."""
    return ROUNDED if function == "AVG" else ""
