"""Running a model's SQL where it can do no harm: in worker processes, off the event loop, within limits.

Queries take well under a millisecond, and models write endless ones all the same. So that these hold up nobody else, a
query first runs in the fast lane, where it gets a short slice of time. One that is not done by then starts anew in the
slow lane, which has workers of its own and alone makes queries wait for long ones. A query only reads, so it
may start twice. What a query may take is processor time: what others run slows it down, and does not make it wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from envs.sql.compare import Row
from envs.sql.pool import Full, Pool

FAST_WORKERS = min(12, max(4, os.cpu_count() or 1))
SLOW_WORKERS = 4
SLICE_SECONDS = 0.05
QUERY_SECONDS = 2.0
WAIT_SECONDS = 10.0
WALL_SECONDS = 10.0
PATIENT_WALL_SECONDS = 120.0
LONGEST_SQL = 10_000

# A worker of the fast lane is soon ended when it is late: a new one takes 0.04 s, and its query has a second chance.
_fast = Pool(FAST_WORKERS, seconds=SLICE_SECONDS, wall=2 * SLICE_SECONDS, late=0.1)
_slow = Pool(SLOW_WORKERS, seconds=QUERY_SECONDS, wall=WALL_SECONDS, late=1.0, niceness=10)


class QueryError(Exception):
    """A query was refused, failed, or took too much; the message is for the model."""


class Busy(QueryError):
    """A long query was given up because others run: it may be right, and may be tried again."""


@dataclass(frozen=True)
class Result:
    """What a query returned.

    Attributes:
        columns: names, as SQLite gives them.
        rows: the first rows, with long texts cut.
        total: how many rows there are, as far as they were counted.
        complete: whether `total` counts them all.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    total: int
    complete: bool


async def run(domain: str, edition: int, sql: str, *, rows: int, count: int = 1000, patient: bool = False) -> Result:
    """Run a query on a fresh in-memory copy of a database that is gone when the answer is there.

    Args:
        domain, edition: which database.
        sql: one statement from an untrusted source.
        rows: how many rows are returned.
        count: how many rows are counted.
        patient: whether a long query waits for its turn as long as that takes, and not only WAIT_SECONDS, and is never
            given up because others run.

    Raises:
        Busy: the query is long, and so are too many others.
        QueryError: the query is not allowed, wrong, or exceeds the limits: the model's mistake.
        RuntimeError, OSError: no worker could be started, or a patient query got no processor: the environment's
            failure.
    """
    if len(sql) > LONGEST_SQL:
        raise QueryError(f"the query is longer than {LONGEST_SQL:,} characters")
    request = {"domain": domain, "edition": edition, "sql": sql, "rows": rows, "count": max(rows, count)}
    try:
        answer = await _fast.ask(request)
    except Full:
        answer = None
    if answer is None:
        try:
            if patient:
                answer = await _slow.ask(request, wall=PATIENT_WALL_SECONDS)
            else:
                answer = await _slow.ask(request, wait=WAIT_SECONDS)
        except Full:
            if patient:
                raise RuntimeError(f"a query got no processor for {PATIENT_WALL_SECONDS:g} s") from None
            raise Busy(
                f"the query takes longer than {SLICE_SECONDS:g} s, and too many such queries run; "
                "make it quicker, or try again"
            ) from None
    if answer is None:
        raise QueryError(f"the query took more than {QUERY_SECONDS:g} s of processor time and was stopped")
    if "error" in answer:
        raise QueryError(answer["error"])
    return Result(**answer)
