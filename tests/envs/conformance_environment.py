"""An environment with something to try for every rule of the conformance check, on either Python server.

Run as a program it serves on 127.0.0.1:$PORT: with the SDK's own server, with this project's where ORS_SERVER=full,
or with the older `ors-sdk` where ORS_SERVER=older.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import uuid
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

OLDER = os.environ.get("ORS_SERVER") == "older"
sdk: Any = importlib.import_module("ors" if OLDER else "openreward.environments")

_WORDS = {"train": ["amber", "birch", "cedar", "dune", "ember"], "test": ["fjord", "grove"], "hard": ["heath"]}


class Text(BaseModel):
    text: str = Field(description="Any text.")


class Seconds(BaseModel):
    seconds: float = Field(ge=0, le=60, description="How long to take.")


class Answer(BaseModel):
    answer: str


class Order(Enum):
    up = "up"
    down = "down"


class Filter(BaseModel):
    word: str = Field(min_length=2, max_length=40)
    order: Order = Order.up


class Query(BaseModel):
    filters: list[Filter] = Field(min_length=1)
    limit: int = Field(default=3, gt=0, le=10)


class Conformance(sdk.Environment):  # type: ignore[misc]
    """Two kinds of ending, a tool for each thing that a stream can do, and one that crashes."""

    def __init__(self, task_spec: Any = None, secrets: Any = None) -> None:
        super().__init__(task_spec or {}, secrets or {})
        self.notes: list[str] = []
        # A file for every open session, so that a test in another process can see which are left.
        self._open = Path(os.environ["ORS_TEST_OPEN"], uuid.uuid4().hex) if "ORS_TEST_OPEN" in os.environ else None

    # Asynchronous: the SDK's own server does not wait for a thread before it tears a session down.
    async def setup(self) -> None:
        if self._open is not None:
            self._open.touch()

    async def teardown(self) -> None:
        if self._open is not None:
            self._open.unlink(missing_ok=True)

    @classmethod
    def name(cls) -> str:
        return "conformance"

    @classmethod
    def list_splits(cls) -> list[Any]:
        return ["train", sdk.Split(name="test", type="test"), "hard"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"word": word, "letters": len(word)} for word in _WORDS[split]]

    def get_prompt(self) -> list[Any]:
        return [sdk.TextBlock(text=f"The word is {self.task_spec.get('word', 'missing')}.")]

    def list_task_tools(self) -> Any:
        letters = sdk.ListToolsOutput.model_fields["tools"].annotation.__args__[0]
        return sdk.ListToolsOutput(tools=[letters(name="letters", description="Count letters.", input_schema=None)])

    @sdk.tool
    async def crash(self) -> sdk.ToolOutput:
        """Fail."""
        raise RuntimeError("the tool failed")

    @sdk.tool
    async def note(self, arguments: Text) -> sdk.ToolOutput:
        """Keep a text, and show it after its number."""
        self.notes.append(arguments.text)
        return _output(f"{len(self.notes)}: {arguments.text}", metadata={"notes": len(self.notes)})

    @sdk.tool
    async def search(self, query: Query) -> sdk.ToolOutput:
        """Search the notes."""
        found = [note for note in self.notes if any(one.word in note for one in query.filters)]
        return _output("\n".join(found[: query.limit]), reward=-0.25)

    @sdk.tool
    async def wait(self, arguments: Seconds) -> sdk.ToolOutput:
        """Take some time."""
        await asyncio.sleep(arguments.seconds)
        return _output(f"waited {arguments.seconds:g} s", reward=0)

    @sdk.tool
    async def submit(self, arguments: Answer) -> sdk.ToolOutput:
        """Give the answer; only the right one ends the episode."""
        right = arguments.answer == self.task_spec.get("word")
        return _output("right" if right else "wrong", reward=float(right), finished=right)

    @sdk.tool(shared=False)
    async def letters(self) -> sdk.ToolOutput:
        """Count letters."""
        return _output(str(self.task_spec.get("letters")))


if not OLDER:

    class Spoken(Conformance):
        """Its only tool is the terminal one."""

        crash = note = search = wait = submit = letters = None

        @classmethod
        def name(cls) -> str:
            return "spoken"

        def list_task_tools(self) -> Any:
            return sdk.ListToolsOutput(tools=[])

        @sdk.terminal
        @sdk.tool
        async def final(self, message: Answer) -> sdk.ToolOutput:
            """Grade the last message."""
            return _output("graded", reward=float(message.answer == self.task_spec.get("word")), finished=True)


class Clipping(Conformance):
    """Its notes are shortened and shown as Python writes them: the tool's doing and not the server's."""

    @classmethod
    def name(cls) -> str:
        return "clipping"

    @sdk.tool
    async def note(self, arguments: Text) -> sdk.ToolOutput:
        """Show the beginning of a text."""
        return _output(repr(arguments.text[:64]))


def environments() -> list[Any]:
    """Return the environments of a full server."""
    return [Conformance, Clipping] if OLDER else [Conformance, Clipping, Spoken]


def _output(text: str, **more: Any) -> Any:
    return sdk.ToolOutput(blocks=[sdk.TextBlock(text=text)], **more)


if __name__ == "__main__":
    if os.environ.get("ORS_SERVER") == "full":
        from envs.server import Settings, serve

        serve(environments(), Settings.from_environ(os.environ, port=int(os.environ["PORT"])))
    else:
        plain = importlib.import_module("ors" if OLDER else "openreward.environments").Server(environments())
        plain.run(host="127.0.0.1", port=int(os.environ["PORT"]))
