"""An environment whose only tool waits as long as it is told to, and its server: what the client is measured against.

python -m benchmarks.waiting --port 8000
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from openreward.environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel, Field

from envs.server import Settings, serve

TASKS = 1024


class WaitArguments(BaseModel):
    """What the model gives to the tool."""

    seconds: float = Field(description="How long to wait.")


class Waiting(Environment):
    """Every call takes a known time and is scored 1."""

    @classmethod
    def name(cls) -> str:
        return "waiting"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"number": number} for number in range(TASKS)]

    async def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Wait. Task {self.task_spec['number']}.")]

    @tool
    async def wait(self, arguments: WaitArguments) -> ToolOutput:
        """Wait."""
        await asyncio.sleep(arguments.seconds)
        return ToolOutput(blocks=[TextBlock(text="waited")], reward=1.0, finished=False)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    serve([Waiting], Settings(port=parser.parse_args(argv).port, ready_create=False))


if __name__ == "__main__":
    main()
