"""Rows for a domain's tables: realistic, reproducible, and sharp enough that a nearly right query gives another result.

A domain has a number of editions: databases with the same schema and different rows. What a model sees is one of the
first VISIBLE editions; what its answer is checked on as well is one of the HIDDEN ones after them.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from functools import cache
from itertools import product

from envs.sql.domains import DOMAINS
from envs.sql.schema import SQL_TYPES, Column, Domain, Table

VISIBLE = 12
HIDDEN = 12

FIRST_DAY = date(2022, 1, 1)
LAST_DAY = date(2024, 12, 31)

Value = str | int | float | None

_CHILDLESS = 0.15  # the share of rows that no reference points to, so that "which have no …" has an answer
_ROUND = 0.35  # the share of numbers that lie on a threshold of questions or next to it, so that > and >= differ


@cache
def database(domain: str, edition: int) -> bytes:
    """Return one edition of a domain's database as the bytes of an SQLite file.

    Raises:
        KeyError: there is no such domain.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        fill(connection, DOMAINS[domain], edition)
        return connection.serialize()


def fill(connection: sqlite3.Connection, domain: Domain, edition: int) -> None:
    """Create the domain's tables in an empty database and insert the edition's rows."""
    rng = random.Random(f"{domain.name}/{edition}")
    sizes: dict[str, int] = {}
    for table in domain.tables:
        connection.execute(create_statement(table))
        # Editions differ in size, so that the number of all rows is no constant either.
        sizes[table.name] = size = round(table.rows * rng.uniform(0.9, 1.1))
        marks = ", ".join("?" * len(table.columns))
        connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", _rows(table, size, sizes, rng))
    connection.commit()


def create_statement(table: Table) -> str:
    """Return the table's CREATE TABLE statement."""
    return f"CREATE TABLE {table.name} ({', '.join(_definition(column) for column in table.columns)})"


def _definition(column: Column) -> str:
    text = f"{column.name} {SQL_TYPES[column.kind]}"
    if column.kind == "key":
        return f"{text} PRIMARY KEY"
    if not column.nulls:
        text += " NOT NULL"
    return f"{text} REFERENCES {column.target}(id)" if column.kind == "reference" else text


def _rows(table: Table, size: int, sizes: dict[str, int], rng: random.Random) -> list[list[Value]]:
    return [list(row) for row in zip(*_columns(table, size, sizes, rng), strict=True)]


def _columns(table: Table, size: int, sizes: dict[str, int], rng: random.Random) -> list[list[Value]]:
    made: dict[str, list[Value]] = {}
    for column in table.columns:
        values = _values(column, size, sizes, made, rng)
        made[column.name] = [None if rng.random() < column.nulls else value for value in values]
    return list(made.values())


def _values(
    column: Column, size: int, sizes: dict[str, int], made: dict[str, list[Value]], rng: random.Random
) -> list[Value]:
    match column.kind:
        case "key":
            return list(range(1, size + 1))
        case "name":
            names = [f"{word} {ending}" for word, ending in product(column.values, column.endings)]
            return list(rng.sample(names, size))
        case "category":
            return list(rng.choices(column.values, [rng.uniform(1, 3) for _ in column.values], k=size))
        case "reference":
            return _references(sizes[column.target], size, rng)
        case "day":
            return [_later(day, column, rng) for day in made[column.after]] if column.after else _days(size, rng)
        case "whole":
            return [_number(column, rng) for _ in range(size)]
        case "money":
            return [_amount(column, rng) for _ in range(size)]


def _references(parents: int, size: int, rng: random.Random) -> list[Value]:
    used = rng.sample(range(1, parents + 1), max(2, round(parents * (1 - _CHILDLESS))))
    return list(rng.choices(used, [rng.uniform(1, 4) for _ in used], k=size))


def _number(column: Column, rng: random.Random) -> int:
    if rng.random() < _ROUND:
        return rng.choice(column.thresholds()) + rng.choice((-1, 0, 0, 1))
    return rng.randint(column.low, column.high)


def _amount(column: Column, rng: random.Random) -> float:
    value = _number(column, rng)
    return float(value) if value in column.thresholds() or value == column.high else value + rng.choice((0.0, 0.5))


def _days(size: int, rng: random.Random) -> list[Value]:
    span = (LAST_DAY - FIRST_DAY).days
    days = [FIRST_DAY + timedelta(rng.randint(0, span)) for _ in range(size)]
    return [str(day.replace(day=rng.choice((1, 1, 2))) if rng.random() < _ROUND / 2 else day) for day in days]


def _later(day: Value, column: Column, rng: random.Random) -> Value:
    return None if day is None else str(date.fromisoformat(str(day)) + timedelta(_number(column, rng)))
