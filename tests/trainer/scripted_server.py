"""A server whose every byte a test writes: what no well-made server would ever say.

It runs in a thread of the test's process with an event loop of its own, speaks just enough HTTP/1.1, and remembers
every request. `Protocol` answers like a small ORS server, of which a test replaces the part that is to go wrong.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply:
    """Writes one answer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.keep_open = False

    async def raw(self, data: bytes) -> None:
        """These bytes, now."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, **headers: str) -> None:
        """Status line and headers; `_` in a header's name stands for `-`."""
        lines = [
            f"HTTP/1.1 {status} Whatever",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        """A whole answer that leaves the connection open."""
        body = json.dumps(value).encode()
        await self.head(status, Content_Type="application/json", Content_Length=str(len(body)), **headers)
        await self.raw(body)
        self.keep_open = True

    async def stream(self, *events: tuple[str, str]) -> None:
        """Server-sent events, in a stream that stays open for more."""
        await self.head(Content_Type="text/event-stream", Connection="close")
        await self.event(*events)

    async def event(self, *events: tuple[str, str]) -> None:
        await self.raw("".join(f"event: {name}\r\ndata: {data}\r\n\r\n" for name, data in events).encode())

    def reset(self) -> None:
        """Break the connection off, as when the server's machine goes down."""
        self._writer.transport.abort()


Answer = Callable[[Request, Reply], Awaitable[None]]


class ScriptedServer:
    """Serves `answer` on 127.0.0.1 until closed."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._closing = False
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", port), self._loop)
        self._server = starting.result()
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def count(self, path: str) -> int:
        """How many requests have come for the path."""
        return sum(request.path == path for request in self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await _read(reader)
                self.requests.append(request)
                reply = Reply(writer)
                await self._answer(request, reply)
                if not reply.keep_open:
                    break
        with suppress(ConnectionError, asyncio.CancelledError):
            if not self._closing:
                writer.close()
                await writer.wait_closed()
        writer.transport.abort()  # what a client does not read would keep its socket open for ever
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    def close(self) -> None:
        """End every connection and stop listening."""

        async def close() -> None:
            # The listener first lets go of what it is accepting: asyncio loses the socket of a connection whose server
            # closes at that moment, and one whose accepting is cancelled. Such a one is served, and ends as such.
            for listener in self._server.sockets:
                self._loop.remove_reader(listener)
            self._closing = True
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in others & self._serving:
                    task.cancel()
                await asyncio.wait(others)
            self._server.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@contextmanager
def scripted(answer: Answer, port: int = 0) -> Iterator[ScriptedServer]:
    """A scripted server for the length of a block."""
    server = ScriptedServer(answer, port)
    try:
        yield server
    finally:
        server.close()


class Protocol:
    """A small ORS server with one environment, `shop`, two tasks in `train` and `test`, and one tool, `add`.

    Args:
        answers: What is answered instead, by path. None: that path does not exist.
    """

    def __init__(self, **answers: Answer | None) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = [
            {
                "name": "add",
                "description": "Add.",
                "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            }
        ]
        self.tasks: dict[str, list[Any]] = {
            "train": [{"target": "a"}, {"target": "b"}],
            "test": [{"target": "t"}, {"target": "u"}],
        }
        self.output: dict[str, Any] = {"blocks": [{"type": "text", "text": "ok"}], "reward": 1.0}
        self._answers = answers

    async def __call__(self, request: Request, reply: Reply) -> None:
        parts = request.path.strip("/").split("/")
        name = parts[-1]
        if name in self._answers:
            answer = self._answers[name]
            if answer is None:
                await reply.json({"detail": "Not Found"}, 404)
            else:
                await answer(request, reply)
        elif (handler := getattr(self, f"_{name}", None)) is None:
            await reply.json({"detail": "Not Found"}, 404)
        else:
            await handler(request, reply)

    async def _list_environments(self, request: Request, reply: Reply) -> None:
        await reply.json(["shop"])

    async def _splits(self, request: Request, reply: Reply) -> None:
        await reply.json([{"name": name, "type": "train"} for name in self.tasks])

    async def _num_tasks(self, request: Request, reply: Reply) -> None:
        await reply.json({"num_tasks": len(self.tasks[request.json["split"]])})

    async def _tasks(self, request: Request, reply: Reply) -> None:
        await reply.json({"tasks": self.tasks[request.json["split"]], "env_name": "shop"})

    async def _task(self, request: Request, reply: Reply) -> None:
        await reply.json({"task": self.tasks[request.json["split"]][request.json["index"]], "env_name": "shop"})

    async def _task_range(self, request: Request, reply: Reply) -> None:
        wanted = request.json
        await reply.json({"tasks": self.tasks[wanted["split"]][wanted["start"] : wanted["stop"]], "env_name": "shop"})

    async def _tools(self, request: Request, reply: Reply) -> None:
        await reply.json({"tools": self.tools})

    _task_tools = _tools

    async def _create_session(self, request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", f"sid-{len(self.sessions)}-{id(request)}"), ("end", ""))

    async def _create(self, request: Request, reply: Reply) -> None:
        sid = request.headers["x-session-id"]
        self.sessions[sid] = request.json
        await reply.json({"sid": sid})

    async def _prompt(self, request: Request, reply: Reply) -> None:
        task = self.sessions[request.headers["x-session-id"]]
        await reply.json([{"type": "text", "text": f"{task['split']} {task['index']}"}])

    async def _call(self, request: Request, reply: Reply) -> None:
        self.calls.append(request.json)
        result = json.dumps({"ok": True, "output": self.output})
        await reply.stream(("task_id", "t1"), ("end", result))

    async def _ping(self, request: Request, reply: Reply) -> None:
        await reply.json({"status": "ok"})

    async def _delete(self, request: Request, reply: Reply) -> None:
        self.deleted.append(request.headers["x-session-id"])
        await reply.json({"sid": request.headers["x-session-id"]})

    async def _delete_session(self, request: Request, reply: Reply) -> None:
        await reply.json({})
