"""When two results are the same answer.

Columns are compared by place, not by name. Rows are a bag: their order counts only where the question asks for one, and
how often a row occurs counts always. Numbers may differ by half a cent, so that a rounded average equals an unrounded
one; a number equals a text that spells it, so that the year 2024 equals '2024'. NULL equals only NULL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Cell = str | int | float | None
Row = Sequence[Cell]

_ABSOLUTE = 0.0051
_RELATIVE = 1e-9


def same_result(one: Sequence[Row], other: Sequence[Row], *, ordered: bool) -> bool:
    """Return whether two results are the same answer."""
    if len(one) != len(other):
        return False
    if ordered:
        return all(same_row(left, right) for left, right in zip(one, other, strict=True))
    return common_rows(one, other) == len(one)


def common_rows(one: Sequence[Row], other: Sequence[Row]) -> int:
    """Return how many rows of one result can each be paired with a row of the other."""
    left = list(other)
    common = 0
    for row in one:
        match = next((place for place, candidate in enumerate(left) if same_row(row, candidate)), None)
        if match is not None:
            del left[match]
            common += 1
    return common


def overlap(answer: Sequence[Row], gold: Sequence[Row]) -> float:
    """Return the F1 score of an answer's rows, from 0.0 (no row is right) to 1.0, whatever their order."""
    if not answer or not gold:
        return 0.0
    return 2 * common_rows(answer, gold) / (len(answer) + len(gold))


def same_row(one: Row, other: Row) -> bool:
    """Return whether two rows have the same values in the same places."""
    return len(one) == len(other) and all(_same_cell(left, right) for left, right in zip(one, other, strict=True))


def _same_cell(one: Cell, other: Cell) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    left, right = _number(one), _number(other)
    if left is None or right is None:
        return False
    return math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _number(cell: str | int | float) -> float | None:
    if not isinstance(cell, str):
        return float(cell)
    # Only plain decimals: float() would also read "nan", "1_000" and digits of other scripts.
    digits = cell.removeprefix("-").replace(".", "", 1)
    return float(cell) if digits.isascii() and digits.isdigit() else None
