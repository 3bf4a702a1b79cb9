"""The databases of the sql environment, opened directly: what tests compare the environment's own words with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pandas as pd

from envs.sql.compare import Row, same_result
from envs.sql.data import database
from envs.sql.domains import DOMAINS
from envs.sql.editions import editions
from envs.sql.tasks import Task

Frames = dict[str, pd.DataFrame]


@contextmanager
def opened(domain: str, edition: int) -> Iterator[sqlite3.Connection]:
    """Open a copy of one edition of a domain's database."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(database(domain, edition))
        yield connection
    finally:
        connection.close()


@cache
def frames(domain: str, edition: int) -> Frames:
    """Return every table of an edition as a pandas frame."""
    with opened(domain, edition) as connection:
        return {
            table.name: pd.read_sql_query(f"SELECT * FROM {table.name}", connection) for table in DOMAINS[domain].tables
        }


def results(task: Task, sql: str) -> list[list[Row]]:
    """Return a query's rows on the visible and on the hidden database of a task.

    Raises:
        sqlite3.Error: the query is wrong.
    """
    chosen = editions(task.number)
    found = []
    for edition in (chosen.visible, chosen.hidden):
        with opened(task.domain.name, edition) as connection:
            found.append(connection.execute(sql).fetchall())
    return found


def is_right(task: Task, answer: list[list[Row]], gold: list[list[Row]]) -> bool:
    """Return whether results on both databases are the gold query's."""
    return all(same_result(one, other, ordered=task.question.ordered) for one, other in zip(answer, gold, strict=True))


def only_right_where_it_is_seen(task: Task, elsewhere: str) -> str:
    """Return a query with a task's one value on its visible database and an expression's on every other.

    The task is about the shop.
    """
    ((answer,),) = results(task, task.question.sql())[0]
    mark = "SELECT COUNT(*) || ' ' || SUM(amount * id) FROM orders"
    ((seen,),) = results(task, mark)[0]
    return f"SELECT CASE WHEN ({mark}) = '{seen}' THEN {answer} ELSE {elsewhere} END"
