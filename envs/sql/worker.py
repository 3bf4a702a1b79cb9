"""The process that runs queries of unknown intent: one at a time, each on a fresh copy of its database.

Run as `python -m envs.sql.worker`. It says that it is ready, reads one request a line from standard input, answers one
line on standard output, and ends when its input does. What a query may do is limited four times over: by SQLite's
authorizer (reading only), by SQLite's own limits, by the time and heap limits of each query, and by what this process
may do at all (no file can be written, no large memory be had, nothing of the server's environment is here). The kernel
ends it by SIGPROF when a query takes more processor time all the same.
"""

from __future__ import annotations

import json
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from envs.sql import data

READY = "ready"
HEAP_BYTES = 64 * 2**20
PROCESS_BYTES = 512 * 2**20
CELL_CHARACTERS = 200
LATE = {"late": True}

_LONGEST_STEP_SECONDS = 0.5  # SQLite looks at its deadline between steps, and there are single steps that take long
_STEPS_BETWEEN_CHECKS = 2000

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
_READING_PRAGMAS = {"table_info", "table_xinfo", "table_list", "foreign_key_list", "index_list", "index_info"}
_DENIED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,  # bytes; the sandbox counts characters
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 50_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def main() -> None:
    """Answer requests until standard input ends."""
    _confine()
    print(READY, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


def answer(
    domain: str, edition: int, sql: str, rows: int, count: int, seconds: float, wall: float
) -> dict[str, Any] | None:
    """Run one query on one edition of a domain's database.

    Args:
        rows: how many rows to return.
        count: how many rows to count before giving up on a total.
        seconds: how much processor time the query may take, whatever else the machine does.
        wall: how many seconds may pass meanwhile.

    Returns:
        `columns`, `rows`, `total` and `complete` (whether the total is all there is); or `error`, a line of text;
        or None when its processor time is used up; or LATE when others kept the processor from it.
    """
    spent, passed = time.process_time() + seconds, time.monotonic() + wall
    with _ended_after(seconds + _LONGEST_STEP_SECONDS), closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data.database(domain, edition))
        _limit(connection)
        connection.set_progress_handler(
            lambda: time.process_time() > spent or time.monotonic() > passed, _STEPS_BETWEEN_CHECKS
        )
        try:
            return _run(connection, sql, rows, count)
        except MemoryError:
            return {"error": f"the query needs more than {HEAP_BYTES // 2**20} MB of memory"}
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            if time.process_time() > spent:
                return None
            return LATE if time.monotonic() > passed else {"error": _explained(error)}


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Have the kernel end this process when it takes more processor time."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _run(connection: sqlite3.Connection, sql: str, rows: int, count: int) -> dict[str, Any]:
    # A second semicolon would be a second statement to Python.
    cursor = connection.execute(sql.strip("; \t\r\n"))
    if cursor.description is None:
        return {"error": "this is no query that returns rows; write one SELECT"}
    kept: list[list[Any]] = []
    total = 0
    for row in cursor:
        total += 1
        if total <= rows:
            kept.append([_cell(value) for value in row])
        if total > count:
            break
    columns = [str(column[0])[:CELL_CHARACTERS] for column in cursor.description]
    return {"columns": columns, "rows": kept, "total": min(total, count), "complete": total <= count}


def _cell(value: str | int | float | bytes | None) -> str | int | float | None:
    if isinstance(value, bytes):
        value = f"x'{value[:CELL_CHARACTERS].hex()}'"
    return value[:CELL_CHARACTERS] if isinstance(value, str) else value


def _explained(error: Exception) -> str:
    text = " ".join(str(error).split())
    denied = any(word in text for word in ("not authorized", "authorization denied", "prohibited"))
    return f"{text} (only reading is allowed)" if denied else text


def _limit(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = (first or "").lower() in _READING_PRAGMAS
    elif action == sqlite3.SQLITE_FUNCTION:
        allowed = (second or "").lower() not in _DENIED_FUNCTIONS
    else:
        allowed = action in _ALLOWED
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _confine() -> None:
    # Where a container's memory runs out, the kernel ends a worker, which is replaced, and not the server beside it.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    for what, most in (
        (resource.RLIMIT_AS, PROCESS_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
