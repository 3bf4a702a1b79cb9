"""The server seen from one of its environments: what it lists, its tasks, and sessions that are always closed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from envs.check.rule import Failed, NotSeen
from envs.check.wire import Exchange, Stream, Wire, decoded


@dataclass(frozen=True)
class Task:
    """One task by its place, with its spec."""

    split: str
    index: int
    spec: dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One tool call and what came of it."""

    tool: str
    arguments: dict[str, Any]
    stream: Stream

    @property
    def outcome(self) -> dict[str, Any]:
        """The result as an object, {} where the server sent none."""
        found = decoded(self.stream.result)
        return found if isinstance(found, dict) else {}

    @property
    def output(self) -> dict[str, Any]:
        found = self.outcome.get("output")
        return found if self.outcome.get("ok") is True and isinstance(found, dict) else {}

    @property
    def ok(self) -> bool:
        return bool(self.output)

    @property
    def finished(self) -> bool:
        return self.output.get("finished") is True

    @property
    def reason(self) -> Any:
        return self.outcome.get("reason")

    @property
    def text(self) -> str:
        return text_of(self.output.get("blocks"))


def is_session_id(text: str) -> bool:
    """Tell whether a text can be sent in the header X-Session-ID."""
    return re.fullmatch(r"[\x21-\x7e]+", text) is not None


def can_be_asked_for(name: str) -> bool:
    """Tell whether a name can be a part of a path: JSON can spell what is no text, half a character."""
    try:
        return bool(quote(name, safe=""))
    except UnicodeEncodeError:
        return False


def text_of(blocks: Any) -> str:
    """Return the text of content blocks, joined."""
    if not isinstance(blocks, list):
        return ""
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


class Session:
    """One open episode."""

    def __init__(self, subject: Subject, sid: str) -> None:
        self.subject = subject
        self.sid = sid

    async def prompt(self) -> Exchange:
        """Return the answer to GET /prompt, once the session no longer says that it is starting."""
        return await self.subject.started("GET", self.subject.path("prompt"), self.sid)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, task_id: str | None = None, timeout: float | None = None
    ) -> Call:
        """Call a tool; `task_id` asks for the result of an earlier call instead."""
        body: dict[str, Any] = {"name": tool, "input": arguments}
        if task_id is not None:
            body["task_id"] = task_id
        stream = await self.subject.wire.stream(self.subject.path("call"), body, session=self.sid, timeout=timeout)
        return Call(tool, arguments, stream)

    async def ping(self) -> Exchange:
        return await self.subject.wire.request("POST", "/ping", session=self.sid)

    async def delete(self) -> Exchange:
        return await self.subject.delete(self.sid)


class Subject:
    """One environment of one server.

    Args:
        name: as the server lists it; "" where the server lists none.
        sessions: every session that may be open on the server, over all subjects, for the runner to close.
    """

    def __init__(self, wire: Wire, name: str, sessions: set[str]) -> None:
        self.wire = wire
        self.name = name
        self.sessions = sessions
        self._splits: list[dict[str, str]] | None = None
        self._counts: dict[str, int] = {}

    def path(self, *parts: str) -> str:
        return "/" + "/".join(quote(part, safe="") for part in (self.name, *parts))

    async def post(self, endpoint: str, **body: Any) -> Exchange:
        """POST to one of the environment's own endpoints."""
        return await self.wire.request("POST", self.path(endpoint), body)

    async def started(self, method: str, path: str, sid: str) -> Exchange:
        """Send a request again while the server answers that the session is still starting."""
        deadline = asyncio.get_running_loop().time() + self.wire.limits.starting
        while True:
            answer = await self.wire.request(method, path, session=sid)
            starting = answer.status == 503 and answer.headers.get("x-backend-state") == "starting"
            if not starting or asyncio.get_running_loop().time() > deadline:
                return answer
            await asyncio.sleep(1.0)

    async def splits(self) -> list[str]:
        """Return the names of the splits.

        Raises:
            NotSeen: the server lists none; ORS-010 says so.
        """
        if self._splits is None:
            found = (await self.wire.request("GET", self.path("splits"))).json()
            self._splits = (
                [one for one in found if isinstance(one, dict) and "name" in one] if isinstance(found, list) else []
            )
        if not self._splits:
            raise NotSeen("the server lists no splits (ORS-010)")
        return [str(one["name"]) for one in self._splits]

    async def count(self, split: str) -> int:
        """Return how many tasks a split has, by /num_tasks or else by /tasks; 0 where the server does not say."""
        if split not in self._counts:
            answer = (await self.post("num_tasks", split=split)).json()
            number = answer.get("num_tasks") if isinstance(answer, dict) else None
            if not isinstance(number, int) or isinstance(number, bool):
                listed = (await self.post("tasks", split=split)).json()
                tasks = listed.get("tasks") if isinstance(listed, dict) else None
                number = len(tasks) if isinstance(tasks, list) else 0
            self._counts[split] = number
        return self._counts[split]

    async def tasks(self, at_least: int = 1) -> list[Task]:
        """Return the first tasks, two at most, of the first split that has `at_least` so many.

        Raises:
            NotSeen: there is no such split.
        """
        for split in await self.splits():
            if await self.count(split) >= at_least:
                return [await self._task(split, index) for index in range(min(2, await self.count(split)))]
        raise NotSeen(f"no split has {at_least} task{'s' if at_least > 1 else ''}")

    async def _task(self, split: str, index: int) -> Task:
        answer = (await self.post("task", split=split, index=index)).json()
        spec = answer.get("task") if isinstance(answer, dict) else None
        return Task(split, index, spec if isinstance(spec, dict) else {})

    @contextlib.asynccontextmanager
    async def closing(self) -> AsyncIterator[str]:
        """Give a session id and delete its session at the end, whether or not one was opened.

        The id is the server's, one of our own where /create_session gives none that can be used (ORS-020 says so).
        """
        given = ((await self.wire.stream("/create_session")).task_id or "").strip()
        sid = given if is_session_id(given) else str(uuid.uuid4())
        try:
            yield sid
        finally:
            if sid in self.sessions:
                with contextlib.suppress(Failed):
                    await self.delete(sid)

    async def delete(self, sid: str) -> Exchange:
        """POST /delete; a session that was asked to go is no longer the runner's to close."""
        answer = await self.wire.request("POST", "/delete", session=sid)
        self.sessions.discard(sid)
        return answer

    async def create(self, sid: str | None, **body: Any) -> Exchange:
        """POST /create, remembering the session so that it is closed whatever happens."""
        if sid is not None:
            self.sessions.add(sid)
        return await self.wire.request("POST", "/create", {"env_name": self.name, **body}, session=sid)

    @contextlib.asynccontextmanager
    async def session(self, task: Task | None = None) -> AsyncIterator[Session]:
        """Open a session on a task, by default the first, and close it at the end.

        Raises:
            NotSeen: the server opens none; ORS-021 says so.
        """
        if task is None:
            task = (await self.tasks())[0]
        async with self.closing() as sid:
            answer = await self.create(sid, split=task.split, index=task.index)
            if answer.status != 200:
                raise NotSeen(f"no session could be opened (ORS-021): {answer.got}")
            yield Session(self, sid)
