"""What a model's SQL cannot do, over HTTP."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envs.sql.sandbox import QUERY_SECONDS
from tests.episode import Episode
from tests.servers import ROOT

NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
ENDLESS = f"{NUMBERS} SELECT COUNT(*) FROM n"
STOPPED = f"Error: the query took more than {QUERY_SECONDS:g} s of processor time and was stopped"


def query(url: str, sql: str) -> str:
    with Episode(url, "sql", split="train", index=0) as episode:
        text: str = episode.call("query", sql=sql)["text"]
        return text


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO orders SELECT * FROM orders",
        "UPDATE orders SET amount = 0",
        "DELETE FROM orders",
        "REPLACE INTO orders(id) VALUES (1)",
        "WITH x AS (SELECT 1) DELETE FROM orders",
        "DELETE FROM orders RETURNING *",
        "DROP TABLE orders",
        "CREATE TABLE x(y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "CREATE VIRTUAL TABLE x USING fts5(y)",
        "CREATE TRIGGER x AFTER INSERT ON orders BEGIN SELECT 1; END",
        "ALTER TABLE orders RENAME TO x",
        "ATTACH 'x.db' AS x",
        "ATTACH ':memory:' AS x",
        "DETACH main",
        "VACUUM INTO 'x.db'",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = WAL",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA temp_store_directory = '/tmp'",
        "PRAGMA database_list",
        "BEGIN",
        "SAVEPOINT x",
        "ANALYZE",
        "SELECT load_extension('x')",
    ],
)
def test_only_reading_is_allowed(url: str, sql: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        before = episode.call("query", sql="SELECT COUNT(*), SUM(amount) FROM orders")["text"]
        assert "(only reading is allowed)" in episode.call("query", sql=sql)["text"]
        assert episode.call("query", sql="SELECT COUNT(*), SUM(amount) FROM orders")["text"] == before


@pytest.mark.parametrize("sql", ["SELECT readfile('/etc/passwd')", "SELECT writefile('x', 'y')", "SELECT edit('x')"])
def test_there_are_no_functions_that_reach_files(url: str, sql: str) -> None:
    assert query(url, sql).startswith("Error: no such function")


@pytest.mark.parametrize("sql", ["PRAGMA table_info(orders)", "PRAGMA foreign_key_list(orders)", "EXPLAIN SELECT 1"])
def test_reading_the_schema_is_allowed(url: str, sql: str) -> None:
    assert not query(url, sql).startswith("Error")


LETTERS = "replace(hex(zeroblob(45000)), '0', 'a')"
OTHERS = "replace(hex(zeroblob(3500)), '0', 'b') || 'a'"


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "SELECT COUNT(*) FROM orders a, orders b, orders c, orders d, orders e",
        # Long steps of SQLite's machine, seconds each: a deadline that is looked at between steps comes late.
        "SELECT " + " + ".join([f"length(trim({LETTERS}, {OTHERS}))"] * 10),
    ],
)
def test_a_long_query_is_an_error_and_the_episode_goes_on(url: str, sql: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        assert episode.call("query", sql=sql)["text"] == STOPPED
        assert episode.call("query", sql="SELECT 1")["text"].endswith("(1 row)")


def test_an_endless_submission_is_wrong(url: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("submit", sql=ENDLESS)
    assert (told["text"], told["reward"], told["finished"]) == (f"Wrong. {STOPPED}", 0.0, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(1000000000)",
        "SELECT replace(printf('%.90000c', 'x'), 'x', printf('%.90000c', 'y'))",
        "SELECT group_concat(a.ordered_on || b.ordered_on) FROM orders a, orders b",
    ],
)
def test_a_huge_value_is_an_error(url: str, sql: str) -> None:
    assert query(url, sql) == "Error: string or blob too big"


def answers(**requests: Any) -> str:
    """Run one request in a worker process of its own, without a server's time limit, and return its answer."""
    code = f"from envs.sql import worker; worker._confine(); print(worker.answer(**{requests!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "sql",
    [
        f"{NUMBERS} SELECT hex(zeroblob(500)) || x AS y FROM n ORDER BY y",
        f"{NUMBERS} SELECT COUNT(DISTINCT x || hex(zeroblob(500))) FROM n",
        "SELECT DISTINCT a.id, b.id, c.id, d.id FROM orders a, orders b, orders c, orders d ORDER BY a.ordered_on",
    ],
)  # fmt: skip
def test_a_query_has_a_limit_of_memory(sql: str) -> None:
    told = answers(domain="shop", edition=0, sql=sql, rows=5, count=5, seconds=90, wall=90)
    assert told.strip() == "{'error': 'the query needs more than 64 MB of memory'}"


def test_a_worker_cannot_write_files(tmp_path: Path) -> None:
    code = "from envs.sql import worker; worker._confine(); print('y', file=open('x', 'w'), flush=True)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert b"File too large" in done.stderr


@pytest.mark.parametrize(
    ("sql", "note"),
    [
        ("SELECT * FROM orders", "rows, the first 20 are shown)"),
        ("SELECT a.id FROM orders a, orders b", "(more than 1,000 rows, the first 20 are shown)"),
        (f"SELECT {', '.join(['hex(zeroblob(250))'] * 60)} FROM orders", " columns are left out, long values are cut)"),
        ("SELECT hex(zeroblob(40000)), x'00ff', 'two\nlines'", "long values are cut)"),
        ("SELECT printf('%.5000c', 'ä') FROM orders", "long values are cut)"),
    ],
)  # fmt: skip
def test_results_are_small_and_say_what_was_left_out(url: str, sql: str, note: str) -> None:
    text = query(url, sql)
    lines = text.splitlines()
    assert lines[-1].endswith(note)
    assert len(text.encode()) < 4000 and len(lines) <= 2 + 20 + 1
    assert all(len(line) <= 120 for line in lines)


def test_a_worker_is_the_first_to_go_where_memory_runs_out() -> None:
    code = "from envs.sql import worker; worker._confine(); print(open('/proc/self/oom_score_adj').read())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "1000"


def test_workers_have_no_keys_and_end_with_their_server() -> None:
    code = """
import asyncio, os, signal, sys
from envs.sql import sandbox
asyncio.run(sandbox.run("shop", 0, "SELECT 1", rows=1))
print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ENV_API_KEY": "a-secret"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout
        children = server.stdout.readline().split() or thread_children(server.pid)
        environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children]
        server.stdin.write("\n")
        server.stdin.flush()
    assert environments and not [found for found in environments if re.search(rb"a-secret|API_KEY", found)]
    deadline = time.monotonic() + 10
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline, "a worker outlives its server"
        time.sleep(0.02)


def thread_children(pid: int) -> list[str]:
    """Return the processes that any thread of a process started."""
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def alive(pid: str) -> bool:
    """Return whether a process runs; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False
