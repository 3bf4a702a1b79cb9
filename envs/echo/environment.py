"""Echo: say the word in the prompt. The smallest environment that can be learned, and the one to read first."""

from __future__ import annotations

from collections.abc import Sequence

from openreward.environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel, Field

from envs.echo.targets import split_targets


class EchoTask(BaseModel):
    """What one task is made of."""

    target: str


class EchoArguments(BaseModel):
    """What the model gives to the tool."""

    text: str = Field(description="The string to echo back.")


class EchoEnvironment(Environment):
    """The model wins by calling `echo` with exactly the word that the prompt names."""

    _targets = split_targets()

    def __init__(self, task_spec: JSONObject, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets or {})
        self.task = EchoTask.model_validate(task_spec)

    @classmethod
    def name(cls) -> str:
        return "echo"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"target": target} for target in cls._targets[split]]

    async def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Echo '{self.task.target}' to win.")]

    @tool
    async def echo(self, arguments: EchoArguments) -> ToolOutput:
        """Submit a string."""
        match = arguments.text == self.task.target
        return ToolOutput(
            blocks=[TextBlock(text="match" if match else "no match")],
            reward=1.0 if match else 0.0,
            finished=match,
        )
