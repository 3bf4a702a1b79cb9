"""Ways to break a server from outside: change a request before the server sees it, or its answer on the way back."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

ENV = "/conformance"
JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def session(self) -> str:
        return self.headers.get("x-session-id", "")

    def having(self, **changes: Any) -> Request:
        """Return the request with another body; a value of None takes the key away."""
        body = {name: value for name, value in {**self.json, **changes}.items() if value is not None}
        return replace(self, body=json.dumps(body).encode())


@dataclass
class Response:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, str]]:
        return re.findall(r"event: (.*)\r\ndata: (.*)\r\n", self.body.decode())

    @property
    def result(self) -> dict[str, Any]:
        data = "".join(data for name, data in self.events if name in ("chunk", "end"))
        found = json.loads(data) if data else {}
        return found if isinstance(found, dict) else {}


Forward = Callable[[Request], Awaitable[Response]]
Fault = Callable[[Request, Forward], Awaitable[Response | None]]


def answer(content: Any, status: int = 200) -> Response:
    return Response(status, json.dumps(content).encode())


def stream(*events: tuple[str, str], colon: str = ": ") -> Response:
    return Response(
        200, "".join(f"event: {name}\ndata{colon}{data}\n\n" for name, data in events).encode(), dict(STREAM)
    )


def resulting(before: Response, result: Any) -> Response:
    """Return a call's answer with another result."""
    text = json.dumps(result, ensure_ascii=False)
    pieces = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    names = ["chunk"] * (len(pieces) - 1) + ["end"]
    return stream(before.events[0], *zip(names, pieces, strict=True))


def on(path: str, change: Callable[[Any], Any], method: str = "POST") -> Callable[[], Fault]:
    """Change the JSON that one endpoint answers."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        if (request.method, request.path) != (method, path):
            return None
        response = await forward(request)
        return answer(change(response.json)) if response.status == 200 else response

    return lambda: fault


def instead(path: str, wanted: Callable[[Request], bool], content: Any, status: int = 200) -> Callable[[], Fault]:
    """Answer some requests to one endpoint with something else."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        return answer(content, status) if request.path == path and wanted(request) else None

    return lambda: fault


def sending(path: str, wanted: Callable[[Request], bool], change: Callable[[Request], Request]) -> Callable[[], Fault]:
    """Change some requests to one endpoint before the server sees them."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        return await forward(change(request)) if request.path == path and wanted(request) else None

    return lambda: fault


def results(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Fault]:
    """Change the result of every tool call but the slow one's, which would lose its comments on the way."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != f"{ENV}/call" or request.json.get("name") == "wait":
            return None
        response = await forward(request)
        result = response.result
        return resulting(response, change(result)) if result else response

    return lambda: fault


def outputs(**changes: Callable[[Any], Any]) -> Callable[[], Fault]:
    """Change fields of every tool's output."""

    def change(result: dict[str, Any]) -> dict[str, Any]:
        if not result.get("ok"):
            return result
        output = {name: changes[name](value) if name in changes else value for name, value in result["output"].items()}
        return {"ok": True, "output": output}

    return results(change)


def reasons(reason: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[], Fault]:
    """Change the results of calls that were refused for one reason."""
    return results(lambda result: change(result) if result.get("reason") == reason else result)
