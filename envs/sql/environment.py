"""Text-to-SQL: answer a question about a business by querying its database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import HTTPException
from openreward.environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.sql import sandbox, tables, tasks
from envs.sql.editions import Editions, editions, first_rows
from envs.sql.grading import Verdict, grade
from envs.sql.sandbox import Busy, QueryError

MAX_QUERIES = 10


class SqlTask(BaseModel):
    """A task as it stands in a dataset: a number, what people want to read, and options. The answer is not in it.

    Only the number and the options are used. The question is found again from the number, so a client that changes the
    other fields changes nothing, and one that makes up a number gets the question of that number.
    """

    model_config = ConfigDict(extra="forbid")

    task: Annotated[int, Field(ge=0, lt=tasks.TOTAL, strict=True)]
    question: str = ""
    domain: str = ""
    level: int = 0
    max_queries: Annotated[int, Field(ge=0, le=100)] = MAX_QUERIES
    partial_credit: bool = False


class DescribeArguments(BaseModel):
    table: str = Field(default="", description="A table's name. Leave it out to see all tables.")


class QueryArguments(BaseModel):
    sql: str = Field(description="One SELECT statement in SQLite's dialect.")


class SubmitArguments(BaseModel):
    sql: str = Field(description="The one SELECT statement whose result is the answer.")


class SqlEnvironment(Environment):
    """The model explores a database and submits the query that answers a question about it."""

    def __init__(self, task_spec: JSONObject, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets or {})
        try:
            self.options = SqlTask.model_validate(task_spec)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise HTTPException(400, f"not a task of this environment: {wrong}") from error
        self.asked = tasks.task(self.options.task)
        self._queries_left = self.options.max_queries
        self._editions: Editions | None = None

    def setup(self) -> None:
        # Synchronous, so that the SDK runs it in a thread: the first session of a task tries out databases.
        self._editions = editions(self.options.task)

    @classmethod
    def name(cls) -> str:
        return "sql"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [
            Split(name="train", type="train"),
            Split(name="validation", type="validation"),
            Split(name="test", type="test"),
        ]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return _rows(split)

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        return tasks.SPLITS[split]

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        return _row(split, index)

    @classmethod
    async def get_task_range(cls, split: str, start: int | None = None, stop: int | None = None) -> list[JSONObject]:
        return await asyncio.to_thread(_rows, split, start, stop)

    async def get_prompt(self) -> Blocks:
        domain = self.asked.domain
        names = ", ".join(table.name for table in domain.tables)
        return [
            TextBlock(
                text=f"{self.asked.wording}\n\n"
                f"The database is that of {domain.about}. Tables: {names}. Dates are texts like 2024-05-31.\n"
                f"Look at it with describe and with up to {self.options.max_queries} calls of query, then submit the "
                f"one SQLite SELECT whose result answers the question."
            )
        ]

    @tool
    async def describe(self, arguments: DescribeArguments) -> ToolOutput:
        """Show the tables with their columns, types and keys, or one table with its first rows."""
        domain = self.asked.domain
        if not arguments.table.strip():
            return _says(tables.domain_text(domain))
        table = domain.table(arguments.table)
        if table is None:
            names = ", ".join(table.name for table in domain.tables)
            return _says(f"There is no such table. Tables: {names}.")
        rows = await asyncio.to_thread(first_rows, self.asked, self._data.visible, table, tables.SAMPLE_ROWS)
        return _says(tables.table_text(table, rows))

    @tool
    async def query(self, arguments: QueryArguments) -> ToolOutput:
        """Run a SELECT and see its result. Nothing is graded."""
        if not self._queries_left:
            return _says(f"All {self.options.max_queries} queries are used up. Submit your answer.")
        self._queries_left -= 1
        try:
            result = await sandbox.run(self.asked.domain.name, self._data.visible, arguments.sql, rows=tables.ROWS)
        except QueryError as error:
            return _says(tables.error_text(error))
        return _says(tables.result_text(result))

    @tool(exclusive=True)
    async def submit(self, arguments: SubmitArguments) -> ToolOutput:
        """Give the final answer: one SELECT. It is graded and the task ends."""
        try:
            verdict = await grade(self.asked, self._data, arguments.sql)
        except Busy as error:
            # How much others run must not decide on a reward.
            return _says(f"Not graded yet. {tables.error_text(error)}")
        return ToolOutput(
            blocks=[TextBlock(text=verdict.text)],
            reward=self._reward(verdict),
            finished=True,
            metadata={"correct": verdict.correct, "domain": self.asked.domain.name, "level": self.asked.level},
        )

    @property
    def _data(self) -> Editions:
        assert self._editions is not None, "the server calls no tool before setup"
        return self._editions

    def _reward(self, verdict: Verdict) -> float:
        if verdict.correct:
            return 1.0
        return verdict.overlap / 2 if self.options.partial_credit else 0.0


def _row(split: str, index: int) -> JSONObject:
    asked = tasks.task(tasks.number_of(split, index))
    return {
        "task": asked.number,
        "question": asked.wording,
        "domain": asked.domain.name,
        "level": asked.level,
        "max_queries": MAX_QUERIES,
        "partial_credit": False,
    }


def _rows(split: str, start: int | None = None, stop: int | None = None) -> list[JSONObject]:
    return [_row(split, index) for index in range(*slice(start, stop).indices(tasks.SPLITS[split]))]


def _says(text: str) -> ToolOutput:
    return ToolOutput(blocks=[TextBlock(text=text)])
