"""Is a submitted query the answer? It must be on the database the model saw and on one it never sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from envs.sql import sandbox
from envs.sql.compare import overlap, same_result
from envs.sql.editions import MOST_ROWS, Editions, gold_rows
from envs.sql.sandbox import QueryError
from envs.sql.tasks import Task


@dataclass(frozen=True)
class Verdict:
    """What became of a submission.

    Attributes:
        correct: the result is the gold query's on both databases.
        overlap: the F1 score of its rows on the database where it is worse, 0.0 to 1.0.
        text: for the model; it does not tell the answer.
    """

    correct: bool
    overlap: float
    text: str


async def grade(asked: Task, data: Editions, sql: str) -> Verdict:
    """Run a submission on both databases of a task and compare it with the gold query's results."""
    right, overlaps = [], []
    for edition in (data.visible, data.hidden):
        try:
            result = await sandbox.run(asked.domain.name, edition, sql, rows=MOST_ROWS + 1, count=MOST_ROWS + 1)
        except QueryError as error:
            return Verdict(False, 0.0, f"Wrong. Error: {error}")
        gold = await asyncio.to_thread(gold_rows, asked, edition)
        right.append(same_result(result.rows, gold, ordered=asked.question.ordered))
        overlaps.append(overlap(result.rows, gold))
    if all(right):
        return Verdict(True, 1.0, "Correct.")
    if right[0]:
        text = "Wrong: the result fits the data you saw, but not other data in the same tables."
    else:
        text = "Wrong: the query runs, but its result does not answer the question."
    return Verdict(False, min(overlaps), text)
