"""Is a submitted query the answer? It must be on the database the model saw and on one it never sees.

What the second database holds is told by nothing but right or wrong: a submission that fails there, or takes too long,
is told in the same words as one with another result. Its words could quote what it read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from envs.sql import sandbox
from envs.sql.compare import overlap, same_result
from envs.sql.editions import MOST_ROWS, Editions, gold_rows
from envs.sql.sandbox import Busy, QueryError, Result
from envs.sql.tables import error_text
from envs.sql.tasks import Task

NOT_HERE = "Wrong: the query runs, but its result does not answer the question."
NOT_THERE = "Wrong: the query fits the data you saw, but not other data in the same tables."


@dataclass(frozen=True)
class Verdict:
    """What became of a submission.

    Attributes:
        correct: the result is the gold query's on both databases.
        overlap: the F1 score of its rows on the database where it is worse, 0.0 to 1.0; 0.0 for a result of more than
            MOST_ROWS rows, which is not read to its end.
        text: for the model; it does not tell the answer.
    """

    correct: bool
    overlap: float
    text: str


async def grade(asked: Task, data: Editions, sql: str) -> Verdict:
    """Run a submission on both databases of a task and compare it with the gold query's results.

    Raises:
        Busy: it could not be graded yet. That depends on the database the model has seen alone: on the other one the
            submission waits for its turn.
    """
    try:
        result = await sandbox.run(asked.domain.name, data.visible, sql, rows=MOST_ROWS, count=MOST_ROWS)
    except Busy:
        raise
    except QueryError as error:
        return Verdict(False, 0.0, f"Wrong. {error_text(error)}")
    here, share_here = await asyncio.to_thread(_compared, asked, data.visible, result)
    try:
        result = await sandbox.run(asked.domain.name, data.hidden, sql, rows=MOST_ROWS, count=MOST_ROWS, patient=True)
    except QueryError:
        there, share_there = False, 0.0
    else:
        there, share_there = await asyncio.to_thread(_compared, asked, data.hidden, result)
    if here and there:
        return Verdict(True, 1.0, "Correct.")
    return Verdict(False, min(share_here, share_there), NOT_THERE if here else NOT_HERE)


def _compared(asked: Task, edition: int, result: Result) -> tuple[bool, float]:
    """Return whether a result is the gold query's, and its overlap with it.

    No gold query has as many rows as a result that is not complete.
    """
    if not result.complete:
        return False, 0.0
    gold = gold_rows(asked, edition)
    return same_result(result.rows, gold, ordered=asked.question.ordered), overlap(result.rows, gold)
