"""Endless queries end, hold up nobody else, and do not decide on anybody's reward."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any

import pytest

from envs.sql import sandbox
from envs.sql.environment import QueryArguments, SqlEnvironment, SubmitArguments
from envs.sql.grading import NOT_THERE
from envs.sql.pool import Full, Pool
from envs.sql.sandbox import FAST_WORKERS, QUERY_SECONDS, SLOW_WORKERS
from envs.sql.tasks import task
from tests.envs.sql.databases import only_right_where_it_is_seen
from tests.episode import Episode

pytestmark = pytest.mark.slow

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
LONG_STEP = (
    f"SELECT {'+'.join(['length(trim(a, b))'] * 10)} FROM "
    "(SELECT replace(hex(zeroblob(45000)), '0', 'a') AS a, replace(hex(zeroblob(3500)), '0', 'b') || 'a' AS b)"
)
STOPPED = f"Error: the query took more than {QUERY_SECONDS:g} s of processor time and was stopped"
BUSY = "Error: the query takes longer than 0.05 s, and too many such queries run; make it quicker, or try again"


def test_more_endless_queries_than_workers_end_while_other_sessions_are_answered(url: str) -> None:
    with ExitStack() as stack:
        sessions = 2 * (FAST_WORKERS + SLOW_WORKERS)
        endless = [stack.enter_context(Episode(url, "sql", split="train", index=0)) for _ in range(sessions)]
        other = stack.enter_context(Episode(url, "sql", task_spec={"task": 1, "max_queries": 100}))
        pool = stack.enter_context(ThreadPoolExecutor(sessions))
        running = [pool.submit(episode.call, "query", sql=ENDLESS) for episode in endless]
        wait(running, return_when=FIRST_COMPLETED)  # so all have begun, and most wait for their turn
        answered = 0
        while answered < 50 and not all(call.done() for call in running):
            assert "(1 row)" in other.call("query", sql="SELECT COUNT(*) FROM orders WHERE amount > 20")["text"]
            answered += 1
        assert {call.result()["text"] for call in running} <= {STOPPED, BUSY}
    assert answered > 3


def ask(pool: Pool, sql: str, patience: float = math.inf) -> Coroutine[Any, Any, Any]:
    return pool.ask({"domain": "shop", "edition": 0, "sql": sql, "rows": 1, "count": 1}, wait=patience)


def test_a_request_that_has_waited_too_long_is_given_up_and_a_patient_one_has_its_turn() -> None:
    async def asked() -> list[Any]:
        return await asyncio.gather(
            ask(pool, ENDLESS), ask(pool, ENDLESS, 0.0), ask(pool, ENDLESS), return_exceptions=True
        )  # fmt: skip

    pool = Pool(1, seconds=0.1, wall=30, late=30)
    try:
        first, second, third = asyncio.run(asked())
    finally:
        pool.stop()
    assert first is None and isinstance(second, Full) and third is None


def test_a_request_is_over_when_its_processor_time_is_and_late_when_others_had_it() -> None:
    over, late = Pool(1, seconds=0.1, wall=60, late=30), Pool(1, seconds=60, wall=0.1, late=30)
    try:
        assert asyncio.run(ask(over, ENDLESS)) is None
        assert asyncio.run(ask(over, LONG_STEP)) is None  # which the kernel ends
        with pytest.raises(Full):
            asyncio.run(ask(late, ENDLESS))
        assert asyncio.run(ask(over, "SELECT 1"))["rows"] == [[1]]
    finally:
        over.stop()
        late.stop()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> SqlEnvironment:
    """Return an environment in which a long query finds the slow lane full."""
    monkeypatch.setattr(sandbox, "WAIT_SECONDS", -1.0)
    environment = SqlEnvironment({"task": 0})
    environment.setup()
    return environment


def graded(session: SqlEnvironment, sql: str) -> Any:
    """Submit a quick query until it was judged: on a machine that stalls it may be taken for a long one."""
    for _ in range(10):
        told = asyncio.run(session.submit(SubmitArguments(sql=sql)))
        if told.finished:
            break
    return told


def test_a_long_query_is_told_when_too_many_run(session: SqlEnvironment) -> None:
    told = asyncio.run(session.query(QueryArguments(sql=ENDLESS)))
    assert (told.blocks[0].text, told.reward, told.finished) == (BUSY, None, False)


def test_a_submission_that_finds_no_room_is_not_graded_and_may_be_made_again(session: SqlEnvironment) -> None:
    told = asyncio.run(session.submit(SubmitArguments(sql=ENDLESS)))
    assert (told.blocks[0].text, told.reward, told.finished) == (f"Not graded yet. {BUSY}", None, False)
    told = graded(session, task(0).question.sql())
    assert (told.blocks[0].text, told.reward, told.finished) == ("Correct.", 1.0, True)


def test_a_submission_that_others_keep_from_the_processor_is_not_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    starved = Pool(1, seconds=60, wall=0.1, late=30)
    monkeypatch.setattr(sandbox, "_slow", starved)
    environment = SqlEnvironment({"task": 0})
    environment.setup()
    try:
        told = asyncio.run(environment.submit(SubmitArguments(sql=ENDLESS)))
    finally:
        starved.stop()
    assert (told.blocks[0].text, told.reward, told.finished) == (f"Not graded yet. {BUSY}", None, False)


def test_a_submission_that_finds_no_room_on_the_hidden_database_waits_for_it(session: SqlEnvironment) -> None:
    sql = only_right_where_it_is_seen(session.asked, elsewhere=f"({ENDLESS})")
    told = graded(session, sql)
    assert (told.blocks[0].text, told.reward, told.finished) == (NOT_THERE, 0.0, True)
