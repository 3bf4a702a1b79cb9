"""One episode over plain HTTP, as the protocol has it: what tests of environments talk to a server with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import httpx


class Episode:
    """A session on one task; use it in a `with` block, which opens and deletes the session."""

    def __init__(self, url: str, environment: str, **task: Any) -> None:
        """Prepare a session; `task` is `split=` and `index=`, or `task_spec=`."""
        self.environment = environment
        self._task = task
        # Nothing is encrypted here, and reading the machine's certificates would take longer than most sessions.
        self._http = httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False)

    def __enter__(self) -> Episode:
        sid = events(self._http.post("/create_session").raise_for_status().text)["task_id"]
        self._http.headers["X-Session-ID"] = sid
        created = self._http.post("/create", json={"env_name": self.environment, **self._task})
        if created.is_error:
            self._http.close()
            raise httpx.HTTPStatusError(created.text, request=created.request, response=created)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.post("/delete")
        self._http.close()

    def prompt(self) -> str:
        """Return the prompt's text."""
        return text(self._http.get(f"/{self.environment}/prompt").raise_for_status().json())

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool and return the protocol's answer: `{"ok": true, "output": …}` or `{"ok": false, "error": …}`.

        Raises:
            RuntimeError: the tool crashed; the message is what the server said.
        """
        call = {"name": tool, "input": dict(arguments)}
        told = events(self._http.post(f"/{self.environment}/call", json=call).raise_for_status().text)
        if "error" in told:
            raise RuntimeError(told["error"])
        result: dict[str, Any] = json.loads(told["end"])
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that is expected to succeed; return its output with the result's `text`."""
        told = self.answer(tool, arguments)
        assert told["ok"], told
        output: dict[str, Any] = told["output"]
        return {**output, "text": text(output["blocks"])}


def text(blocks: list[dict[str, Any]]) -> str:
    """Return the text of a prompt's or a result's blocks."""
    return "".join(block["text"] for block in blocks)


def events(stream: str) -> dict[str, str]:
    """Return the data of a stream of server-sent events by event name; a result's chunks are joined under "end"."""
    told: dict[str, str] = {}
    chunks = ""
    for event in stream.replace("\r\n", "\n").split("\n\n"):
        fields = [line.partition(":")[::2] for line in event.split("\n") if line and not line.startswith(":")]
        name = next((value.strip() for key, value in fields if key == "event"), None)
        data = "\n".join(value.removeprefix(" ") for key, value in fields if key == "data")
        if name == "chunk":
            chunks += data
        elif name is not None:
            told[name] = chunks + data if name == "end" else data
    return told
