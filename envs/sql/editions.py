"""Which databases a task is asked and checked on.

A task's data must tell its answer from those of careless readers. Among the editions of its domain the first pair is
taken on which the gold query returns rows, no constant is right on both, and every near miss gives another result on at
least one of the two; where no pair catches all near misses, the one that catches most.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from envs.sql import data
from envs.sql.compare import Row, same_result
from envs.sql.schema import Table
from envs.sql.tasks import Task, task

MOST_ROWS = 100
_PAIRS = 48

_choosing = threading.Lock()


class Unanswerable(Exception):
    """No pair of editions gives the task a usable answer."""


@dataclass(frozen=True)
class Editions:
    """The databases of one task: the one to explore and the one only the final answer is run on."""

    visible: int
    hidden: int
    missed: int
    """How many near misses neither database tells from the gold query."""


def editions(number: int) -> Editions:
    """Choose a task's databases; the same ones for a number on every machine.

    Raises:
        IndexError: there is no such task.
        Unanswerable: no pair fits; the tests show that this happens for no task.
    """
    # One at a time: the rollouts of a group open the same task at the same moment, and find it chosen after the first.
    with _choosing:
        return _choose(number)


def gold_rows(asked: Task, edition: int) -> list[Row]:
    """Return the gold query's rows on an edition."""
    with closing(_open(asked, edition)) as connection:
        return _rows(connection, asked.question.sql())


def first_rows(asked: Task, edition: int, table: Table, count: int) -> list[Row]:
    """Return the first rows of one of the task's tables on an edition."""
    with closing(_open(asked, edition)) as connection:
        return _rows(connection, f"SELECT * FROM {table.name} LIMIT {count}")


@cache
def _choose(number: int) -> Editions:
    asked = task(number)
    best: Editions | None = None
    for attempt in range(_PAIRS):
        visible = (number + attempt) % data.VISIBLE
        hidden = data.VISIBLE + (number // data.VISIBLE + 5 * attempt + attempt // data.VISIBLE) % data.HIDDEN
        missed = _missed(asked, visible, hidden)
        if missed is not None and (best is None or missed < best.missed):
            best = Editions(visible, hidden, missed)
            if not missed:
                break
    if best is None:
        raise Unanswerable(f"task {number}: {asked.wording}")
    return best


def _missed(asked: Task, visible: int, hidden: int) -> int | None:
    """Return how many near misses stay undetected, or None if the pair gives no usable answer at all."""
    ordered = asked.question.ordered
    with closing(_open(asked, visible)) as shown, closing(_open(asked, hidden)) as kept:
        here, there = (_rows(connection, asked.question.sql()) for connection in (shown, kept))
        if not (_usable(here) and _usable(there)) or same_result(here, there, ordered=ordered):
            return None
        return sum(
            same_result(_rows(shown, other.sql()), here, ordered=ordered)
            and same_result(_rows(kept, other.sql()), there, ordered=ordered)
            for other in asked.question.near_misses()
        )


def _usable(rows: Sequence[Row]) -> bool:
    return 0 < len(rows) <= MOST_ROWS and any(cell for row in rows for cell in row)


def _open(asked: Task, edition: int) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data.database(asked.domain.name, edition))
    return connection


def _rows(connection: sqlite3.Connection, sql: str) -> list[Row]:
    return connection.execute(sql).fetchall()
