"""An environment that does to a server whatever environments do, and that server in a process of its own.

    python -m tests.envs.trial PORT [plain]

With `plain` it is the SDK's server, to compare with.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import httpx
from openreward.environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from openreward.environments.types import GroupCandidate, GroupScore
from pydantic import BaseModel, Field

from tests import servers
from tests.episode import events
from tests.forked import Forked

logger = logging.getLogger("trial")


class Text(BaseModel):
    text: str = Field(description="Any text.")


class Seconds(BaseModel):
    seconds: float


class Place(BaseModel):
    city: str
    floor: int = 0


class Fill(BaseModel):
    """Every kind of field that a form can have."""

    text: str = Field(description="Two lines, say.")
    colour: Literal["red", "green"]
    where: Place
    count: int = Field(default=3, ge=1, le=9)
    ratio: float | None = None
    loud: bool = False
    tags: list[str] = Field(default_factory=list)


class TrialEnvironment(Environment):
    """One task, whose tools fail in every way."""

    def __init__(self, task_spec: JSONObject, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets or {})
        if os.environ.get("TRIAL_CONSTRUCTOR") == "broken":
            raise RuntimeError("no licence")
        self.target = task_spec["target"]
        self.secrets = secrets or {}

    @classmethod
    def name(cls) -> str:
        return "trial"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        if os.environ.get("TRIAL_TASKS") == "missing":
            raise FileNotFoundError("tasks.json is not there")
        if os.environ.get("TRIAL_TASKS") == "broken":
            return [{"target": "broken setup"}]
        if os.environ.get("TRIAL_TASKS") == "unreadable":
            return [{"no": "target"}]
        return [{"target": "a"}, {"target": "b"}]

    async def setup(self) -> None:
        await asyncio.sleep(float(self.task_spec.get("setup_seconds", 0)))
        if self.target == "setup that cancels itself":
            await cancel_this_task()
        if self.target == "broken setup":
            raise ValueError(f"cannot set up with {self.secrets}")

    def teardown(self) -> None:
        time.sleep(float(self.task_spec.get("teardown_seconds", 0)))
        while not os.path.exists(self.task_spec.get("torn_down_once", os.curdir)):
            time.sleep(0.01)
        mark(self.target)

    def get_prompt(self) -> Blocks:
        if self.target == "broken prompt":
            raise ValueError(f"there is no prompt with {self.secrets}")
        if seconds := self.task_spec.get("prompt_seconds"):
            mark("asked")
            time.sleep(seconds)
        return [TextBlock(text=f"Say {self.target}.")]

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore | float]:
        mark("scoring")
        await asyncio.sleep(float(self.task_spec.get("score_seconds", 0)))
        if self.target == "broken score":
            raise ValueError(f"no scores from {self.target!r}")
        if self.target == "score that cancels itself":
            await cancel_this_task()
        if self.target == "score that gives up":
            raise asyncio.CancelledError
        return [0.5 for _ in candidates]

    @tool
    async def say(self, arguments: Text) -> ToolOutput:
        """Say something."""
        won = arguments.text == self.target
        return ToolOutput(blocks=[TextBlock(text=arguments.text)], reward=float(won), finished=won)

    @tool(concurrent=True)
    async def wait(self, arguments: Seconds) -> ToolOutput:
        """Take a while."""
        await asyncio.sleep(arguments.seconds)
        return ToolOutput(blocks=[TextBlock(text="waited")])

    @tool
    def block(self, arguments: Seconds) -> ToolOutput:
        """Take a while in a thread."""
        time.sleep(arguments.seconds)
        return ToolOutput(blocks=[TextBlock(text="blocked")])

    @tool
    async def crash(self, arguments: Text) -> ToolOutput:
        """Raise."""
        raise RuntimeError(arguments.text)

    @tool
    async def fill(self, arguments: Fill) -> ToolOutput:
        """Show what arrived, and which of it was sent."""
        sent = arguments.model_dump_json(exclude_unset=True)
        return ToolOutput(blocks=[TextBlock(text=sent)], metadata={"fields": len(arguments.model_fields_set)})

    @tool
    async def leak(self) -> ToolOutput:
        """Tell every secret in the log, in the exception and in a thread's."""
        logger.warning("arguments %s", self.secrets)
        for secret in self.secrets.values():
            logger.warning(secret)
            logger.warning("as JSON: %s", json.dumps(secret))
            logger.warning("not as a number: %d", secret)
        thread = threading.Thread(target=float, args=(str(self.secrets),))
        thread.start()
        thread.join()
        warnings.warn(f"{self.secrets} are told", stacklevel=1)
        raise ValueError(f"cannot log in with {self.secrets}: {self.secrets.get('PEM')}")

    @tool
    async def leave(self) -> ToolOutput:
        """Call exit."""
        sys.exit(3)

    @tool
    async def give_up(self) -> ToolOutput:
        """Be cancelled from within."""
        raise asyncio.CancelledError

    @tool
    async def cancel(self, arguments: Seconds) -> ToolOutput:
        """Cancel the task that it runs in, and wait before it returns if there is anything to wait for."""
        await cancel_this_task(arguments.seconds)
        return ToolOutput(blocks=[TextBlock(text="cancelled")])


class SlowSetup(Environment):
    """One whose setup blocks a thread, as one does that starts a container."""

    @classmethod
    def name(cls) -> str:
        return "slow_setup"

    @classmethod
    def list_splits(cls) -> Sequence[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"target": "a"}]

    def setup(self) -> None:
        mark("setting up")
        time.sleep(float(os.environ.get("TRIAL_SETUP_SECONDS", "1.5")))
        mark("set up")

    def teardown(self) -> None:
        mark("torn down")

    def get_prompt(self) -> Blocks:
        return [TextBlock(text="Wait.")]

    @tool
    async def nothing(self) -> ToolOutput:
        """Do nothing."""
        return ToolOutput(blocks=[TextBlock(text="done")])


async def cancel_this_task(seconds: float = 30) -> None:
    """Cancel the task that this runs in, as code does which takes it for its own."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    if seconds:
        await asyncio.sleep(seconds)


def mark(line: str) -> None:
    """Write a line to the file that a test reads, where it gave one."""
    if path := os.environ.get("TRIAL_MARK"):
        with open(path, "a") as file:
            file.write(f"{line}\n")


class TrialServer:
    """A server of the trial environment.

    Attributes:
        url: its base URL.
        process: its process.
    """

    def __init__(self, url: str, process: Forked, log: IO[bytes]) -> None:
        self.url = url
        self.process = process
        self._log = log
        self._clients: list[httpx.Client] = []

    def client(self, sid: str | None = None, **headers: str) -> httpx.Client:
        """Return an HTTP client of this server, for one session where an id is given; it is closed with the server."""
        given = {**headers, **({"X-Session-ID": sid} if sid else {})}
        self._clients.append(httpx.Client(base_url=self.url, headers=given, timeout=60, trust_env=False, verify=False))
        return self._clients[-1]

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def open(self, sid: str, spec: Mapping[str, Any] | None = None, **headers: str) -> httpx.Client:
        """Open a session and return its client."""
        client = self.client(sid, **headers)
        client.post("/create", json={"task_spec": dict(spec or {"target": "a"})}).raise_for_status()
        return client

    def log(self) -> str:
        """Return what the server has printed so far."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def metric(self, line: str) -> float:
        """Return the value of a metric, given with its labels as Prometheus prints them; 0 where it is not there."""
        for text in httpx.get(f"{self.url}/metrics", trust_env=False, verify=False).text.splitlines():
            if text.startswith(f"{line} "):
                return float(text.rpartition(" ")[2])
        return 0.0


@contextmanager
def trial_server(*, plain: bool = False, **env: str) -> Iterator[TrialServer]:
    """Serve the trial environment until the block ends, with these variables."""
    port = servers.free_port()
    words = ["-m", "tests.envs.trial", str(port), *(["plain"] if plain else [])]
    with tempfile.NamedTemporaryFile() as log:
        process = Forked(words, env=servers.variables(port, env), log=Path(log.name), cwd=servers.ROOT)
        server = TrialServer(f"http://127.0.0.1:{port}", process, log)
        try:
            until(lambda: process.poll() is not None or _answers(server), "the server answers", seconds=60)
            assert process.poll() is None, server.log()
            yield server
        finally:
            server.close()
            servers.stop(process)


def tool_call(client: httpx.Client, name: str, **arguments: Any) -> dict[str, str]:
    """Call a tool and return the events of its answer."""
    response = client.post("/trial/call", json={"name": name, "input": arguments})
    assert response.status_code == 200, response.text
    return events(response.text)


def score(client: httpx.Client) -> dict[str, str]:
    """Have one candidate scored and return the events of the answer."""
    message = {"role": "assistant", "blocks": [{"type": "text", "text": "x"}]}
    response = client.post("/trial/score_group", json={"candidates": [{"messages": [message]}]})
    assert response.status_code == 200, response.text
    return events(response.text)


def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it does not within so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def _answers(server: TrialServer) -> bool:
    try:
        return httpx.get(f"{server.url}/health", trust_env=False, verify=False).status_code == 200
    except httpx.TransportError:
        return False


def main(port: int, plain: bool) -> None:
    if plain:
        from openreward.environments import Server

        Server([TrialEnvironment]).run(host="127.0.0.1", port=port)
    else:
        from envs.server import Settings, serve

        serve(
            [SlowSetup if os.environ.get("TRIAL_SETUP") == "slow" else TrialEnvironment],
            Settings.from_environ(os.environ, host=os.environ.get("HOST", "127.0.0.1"), port=port),
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), "plain" in sys.argv[2:])
