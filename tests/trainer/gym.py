"""A server with environments for tests of the command line, which keeps a diary in the file that DIARY names."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from openreward.environments import Environment, JSONObject, Server, TextBlock, ToolOutput, terminal, tool
from pydantic import BaseModel, Field

TASKS = {"train": [{"n": n} for n in range(6)], "test": [{"n": n} for n in range(6, 9)], "nothing": []}


def note(**facts: Any) -> None:
    """Write a line into the diary, which outlives the server."""
    if "DIARY" in os.environ:
        with Path(os.environ["DIARY"]).open("a") as diary:
            diary.write(json.dumps(facts) + "\n")


class Say(BaseModel):
    text: str = Field(description="What to say.")
    tone: int = 3


class Gym(Environment):
    """Counts its sessions and keeps what it is given."""

    def __init__(self, task_spec: JSONObject, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets or {})
        note(event="secrets", secrets=secrets or {})

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return list(TASKS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return TASKS[split]

    async def setup(self) -> None:
        note(event="setup")
        await asyncio.sleep(float(os.environ.get("SETUP_SECONDS", "0")))

    async def teardown(self) -> None:
        note(event="teardown")

    async def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Say [bold]{self.task_spec['n']}[/bold]. \x1b[31m")]

    @tool
    async def say(self, arguments: Say) -> ToolOutput:
        """Say something [red]aloud[/red]."""
        return ToolOutput(blocks=[TextBlock(text="said")], reward=1.0, finished=True)


class Bare(Environment):
    """An environment that offers nothing to do: its one tool is hidden from the model."""

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{}]

    async def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="Wait.")]

    @terminal
    @tool
    async def grade(self) -> ToolOutput:
        """Grade the last message."""
        return ToolOutput(blocks=[], reward=0.0, finished=True)


async def _with_diary(app: Any, scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"] == "/create_session":
        names = ("authorization", "x-api-key", "x-team")
        note(event="headers", headers={k.decode(): v.decode() for k, v in scope["headers"] if k.decode() in names})
    await app(scope, receive, send)


if __name__ == "__main__":
    server = Server([Gym, Bare])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _with_diary(server.app, scope, receive, send)

    sys.exit(
        uvicorn.run(
            app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", timeout_graceful_shutdown=1
        )
    )
