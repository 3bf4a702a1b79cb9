"""The environment that most tests of the trainer's side run on: it says what it was given and does what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from openreward.environments import Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel, Field

from tests.trainer.environments.recording import record, serve

TASKS: dict[str, list[dict[str, Any]]] = {
    "train": [{"target": "alpha"}, {"target": "beta"}, {"target": "gamma"}],
    "test": [{"target": "omega"}, {"target": "psi"}],
    "many": [{"n": n} for n in range(1100)],
    "nothing": [],
    "slow": [{"target": "alpha", "setup": 0.2}],
    "endless": [{"target": "alpha", "setup": 60}],
    "failing": [{"target": "alpha", "fails": n} for n in (0, 1, 2, 100)],
}


class Score(BaseModel):
    reward: float | None = None
    finished: bool = False
    text: str = "scored"


class Say(BaseModel):
    text: str


class Wait(BaseModel):
    seconds: float


class Defaults(BaseModel):
    words: list[str] = Field(default_factory=lambda: ["from", "the", "factory"])
    count: int = 3
    note: str | None = None


class Workshop(Environment):
    """Tools that score, speak, crash, take their time, and tell what they were given."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(TASKS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return TASKS[split]

    async def setup(self) -> None:
        record.ran["setup"] += 1
        number = record.ran["setup"]
        record.enter("setups")
        try:
            await asyncio.sleep(self.task_spec.get("setup", 0))
            if number <= self.task_spec.get("fails", 0):
                raise RuntimeError("no room today")
        finally:
            record.leave("setups")

    async def teardown(self) -> None:
        record.ran["teardown"] += 1

    async def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Make {self.task_spec.get('target', self.task_spec.get('n'))}.")]

    @tool
    async def score(self, arguments: Score) -> ToolOutput:
        """Give a reward."""
        return self._done("score", arguments.text, reward=arguments.reward, finished=arguments.finished)

    @tool
    async def say(self, arguments: Say) -> ToolOutput:
        """Say the text back."""
        return self._done("say", arguments.text, metadata={"length": len(arguments.text)})

    @tool
    async def defaults(self, arguments: Defaults) -> ToolOutput:
        """Tell which arguments were given."""
        record.given.append(sorted(arguments.model_fields_set))
        return self._done("defaults", " ".join(arguments.words))

    @tool
    async def crash(self) -> ToolOutput:
        """Fail."""
        record.ran["crash"] += 1
        raise RuntimeError("the saw\nis broken")

    @tool
    async def wait(self, arguments: Wait) -> ToolOutput:
        """Take long."""
        record.enter("waits")
        try:
            await asyncio.sleep(arguments.seconds)
        finally:
            record.leave("waits")
        return self._done("wait", "waited")

    @tool
    async def reset(self) -> ToolOutput:
        """A tool with a name that the trainer needs."""
        return self._done("reset", "reset by the tool")

    @tool
    async def calls(self) -> ToolOutput:
        """A tool named like a part of the adapter's state."""
        return self._done("calls", "calls by the tool")

    @tool
    async def _hidden(self) -> ToolOutput:
        """A tool with a name that looks private."""
        return self._done("_hidden", "not hidden")

    def _done(self, name: str, text: str, **output: Any) -> ToolOutput:
        record.ran[name] += 1
        return ToolOutput(blocks=[TextBlock(text=text)], **output)


if __name__ == "__main__":
    serve([Workshop])
