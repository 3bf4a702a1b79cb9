"""Two environments on one server, to tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from openreward.environments import Environment, JSONObject, TextBlock, ToolOutput, tool

from tests.trainer.environments.recording import record, serve


class FirstShop(Environment):
    """What a server gives to those who name nothing."""

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"first": True}]

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="first")]

    @tool
    async def one(self) -> ToolOutput:
        """The first's tool."""
        return ToolOutput(blocks=[TextBlock(text="one")], reward=1.0)


class SecondShop(Environment):
    """What must be asked for by name."""

    @classmethod
    def name(cls) -> str:
        return "second-shop"

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"second": True}, {"second": False}]

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="second")]

    @tool
    async def two(self) -> ToolOutput:
        """The second's tool."""
        record.ran["two"] += 1
        return ToolOutput(blocks=[TextBlock(text="two")], reward=2.0)


if __name__ == "__main__":
    serve([FirstShop, SecondShop])
