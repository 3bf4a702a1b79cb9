"""An environment that records what happens to it, served on the port of the variable PORT. Runs as a program.

`GET /record` tells what happened since the last `POST /clear`. With `POST /open-together?party=N` a session is ready
only when N are being opened at the same time. `POST /die` ends the process on the spot.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import uvicorn
from openreward.environments import Blocks, Environment, JSONObject, Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel, Field

WAIT_SECONDS = 60.0  # for others to come; who is called one after the other fails then


class Meeting:
    """Lets nobody through before so many are there at once."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []

    async def join(self, party: int) -> None:
        mine = asyncio.Event()
        self._waiting.append(mine)
        if len(self._waiting) >= party:
            for event in self._waiting:
                event.set()
            self._waiting.clear()
        try:
            await asyncio.wait_for(mine.wait(), WAIT_SECONDS)
        except TimeoutError:
            self._waiting.remove(mine)
            raise RuntimeError("the others did not come") from None


@dataclass
class Record:
    """What happened: calls as they began and ended, tasks opened, sessions open now, paths asked for."""

    calls: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    sessions_open: int = 0
    most_sessions_open: int = 0
    requests: list[str] = field(default_factory=list)


record = Record()
opening, calling = Meeting(), Meeting()
open_party = 1


class NoteArguments(BaseModel):
    text: str
    reward: float | None = None
    finished: bool = False
    seconds: float = 0.0


class MeetArguments(BaseModel):
    party: int


class BigArguments(BaseModel):
    text: str
    size: int


class Step(BaseModel):
    action: Literal["go", "stop"]
    metres: int = Field(ge=0, le=100)


class PlanArguments(BaseModel):
    steps: list[Step] = Field(min_length=1, description="What to do, in order.")
    mode: Literal["fast", "safe"] = "safe"


class Play(Environment):
    """Does what a test needs done."""

    @classmethod
    def name(cls) -> str:
        return "play"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"label": f"{split}-{number}"} for number in range(64)]

    async def setup(self) -> None:
        record.tasks.append(str(self.task_spec["label"]))
        record.sessions_open += 1
        record.most_sessions_open = max(record.most_sessions_open, record.sessions_open)
        if open_party > 1:
            await opening.join(open_party)

    async def teardown(self) -> None:
        record.sessions_open -= 1

    async def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Play {self.task_spec['label']}.")]

    @tool
    async def note(self, arguments: NoteArguments) -> ToolOutput:
        """Take a note."""
        record.calls.append(f"{arguments.text} begins")
        await asyncio.sleep(arguments.seconds)
        record.calls.append(f"{arguments.text} ends")
        return _said(f"noted {arguments.text}", arguments.reward, arguments.finished)

    @tool
    async def meet(self, arguments: MeetArguments) -> ToolOutput:
        """Wait for the others."""
        await calling.join(arguments.party)
        return _said("met", 1.0)

    @tool
    async def big(self, arguments: BigArguments) -> ToolOutput:
        """Say much."""
        record.calls.append(arguments.text)
        return _said("x" * arguments.size, 0.5)

    @tool
    async def plan(self, arguments: PlanArguments) -> ToolOutput:
        """Make a plan."""
        return _said(f"{len(arguments.steps)} steps, {arguments.mode}", 1.0)

    @tool
    async def crash(self) -> ToolOutput:
        """Fail."""
        raise RuntimeError("the environment has a fault")

    @tool
    async def hang(self) -> ToolOutput:
        """Never answer."""
        await asyncio.Event().wait()
        raise AssertionError


def _said(text: str, reward: float | None, finished: bool = False) -> ToolOutput:
    return ToolOutput(blocks=[TextBlock(text=text)], reward=reward, finished=finished)


def application() -> Any:
    app = Server([Play]).app

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        global record, open_party
        path = scope.get("path", "")
        if path == "/clear":
            record, open_party = Record(), 1
        elif path == "/open-together":
            open_party = int(scope["query_string"].decode().partition("party=")[2])
        elif path == "/die":
            os._exit(1)
        elif path != "/record":
            record.requests.append(path)
            await app(scope, receive, send)
            return
        body = json.dumps(asdict(record)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    return recorded


if __name__ == "__main__":
    uvicorn.run(application(), host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
