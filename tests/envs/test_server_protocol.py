"""The protocol is the SDK's: what this server answers is what the SDK's plain server answers, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.envs.trial import TrialServer, trial_server

SESSION = {"X-Session-ID": "pair"}
TASK = {"task_spec": {"target": "a"}}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[TrialServer, TrialServer]]:
    with trial_server(plain=True) as plain, trial_server() as ours:
        yield plain, ours


# In this order: some of them are one session's episode.
REQUESTS: list[tuple[str, str, object, dict[str, str]]] = [
    ("GET", "/health", None, {}),
    ("GET", "/version", None, {}),
    ("GET", "/list_environments", None, {}),
    ("GET", "/trial/tools", None, {}),
    ("GET", "/TRIAL/tools", None, {}),
    ("GET", "/trial/splits", None, {}),
    ("GET", "/tools", None, {}),
    ("GET", "/tools?a=b%20c", None, {}),
    ("GET", "/nothing", None, {}),
    ("GET", "/trial/nothing", None, {}),
    ("GET", "/nothing/tools", None, {}),
    ("GET", "/health/", None, {}),
    ("POST", "/health", {}, {}),
    ("DELETE", "/create", None, {}),
    ("OPTIONS", "/create", None, {}),
    ("POST", "/trial/tasks", {"split": "train"}, {}),
    ("POST", "/trial/tasks", {"split": "nothing"}, {}),
    ("POST", "/trial/num_tasks", {"split": "train"}, {}),
    ("POST", "/trial/num_tasks", {"split": 7}, {}),
    ("POST", "/trial/num_tasks", {}, {}),
    ("POST", "/trial/task", {"split": "train", "index": 1}, {}),
    ("POST", "/trial/task", {"split": "train", "index": 2}, {}),
    ("POST", "/trial/task", {"split": "train", "index": 10**30}, {}),
    ("POST", "/trial/task_range", {"split": "train", "start": -1}, {}),
    ("POST", "/trial/task_range", {"split": "train", "start": 0, "stop": 99, "surprise": 1}, {}),
    ("POST", "/create_session", {}, {}),
    ("POST", "/create", TASK, {}),
    ("POST", "/create", {}, SESSION),
    ("POST", "/create", {"split": "train"}, SESSION),
    ("POST", "/create", {"split": "nothing", "index": 0}, SESSION),
    ("POST", "/create", {"split": "train", "index": 99}, SESSION),
    ("POST", "/create", {**TASK, "env_name": "nothing"}, SESSION),
    ("POST", "/create", {**TASK, "toolset_name": "nothing"}, SESSION),
    ("POST", "/create", TASK, SESSION),
    ("POST", "/create", TASK, SESSION),
    ("POST", "/ping", {}, SESSION),
    ("POST", "/ping", {}, {}),
    ("GET", "/trial/prompt", None, SESSION),
    ("GET", "/trial/messages", None, SESSION),
    ("GET", "/trial/task_tools", None, SESSION),
    ("GET", "/trial/prompt", None, {}),
    ("POST", "/trial/score_group", {"candidates": []}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"text": "no"}}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"text": "x y\n " * 5000}}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"wrong": 1}}, SESSION),
    ("POST", "/trial/call", {"name": "nothing", "input": {}}, SESSION),
    ("POST", "/trial/call", {"name": "wait", "input": {"seconds": 0.2}}, SESSION),
    ("POST", "/trial/call", {"name": "block", "input": {"seconds": 0.1}}, SESSION),
    ("POST", "/trial/call", {"name": "crash", "input": {"text": "two\nlines"}}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {}, "task_id": "nothing"}, SESSION),
    ("POST", "/trial/call", {"name": "say"}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"text": "a"}}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"text": "a"}}, SESSION),
    ("POST", "/trial/call", {"name": "say", "input": {"text": "a"}}, {"X-Session-ID": "nobody"}),
    ("POST", "/delete", {}, SESSION),
    ("POST", "/delete", {}, SESSION),
    ("POST", "/delete_session", {}, SESSION),
    ("POST", "/create", {"task_spec": {"target": "broken prompt"}}, SESSION),
    ("GET", "/trial/prompt", None, SESSION),
    ("POST", "/delete", {}, SESSION),
    ("GET", "/trial/prompt", None, SESSION),
]


def test_every_answer_is_the_sdks_with_its_headers(pair: tuple[TrialServer, TrialServer]) -> None:
    plain, ours = (server.client() for server in pair)
    for method, path, body, headers in REQUESTS:
        content = None if body is None else json.dumps(body).encode()
        given = {**headers, **({} if body is None else {"content-type": "application/json"})}
        expected, answer = (client.request(method, path, content=content, headers=given) for client in (plain, ours))
        assert _seen(answer) == _seen(expected), f"{method} {path} {body}"


def _seen(response: httpx.Response) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    own = str(response.url.copy_with(path="", query=None)).rstrip("/").encode()
    headers = [(name, value.replace(own, b"URL")) for name, value in response.headers.raw if name != b"date"]
    # Ids that a server makes up, one per call and one per session.
    body = re.sub(rb"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", b"ID", response.content)
    return response.status_code, headers, body


def test_a_call_can_be_fetched_again_by_its_id(pair: tuple[TrialServer, TrialServer]) -> None:
    count = 'ors_tool_calls_total{environment="trial",outcome="success",tool="wait"}'
    before = pair[1].metric(count)
    client = pair[1].open("again")
    call = {"name": "wait", "input": {"seconds": 1}}
    with client.stream("POST", "/trial/call", json=call) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: task_id"
        task_id = next(lines).removeprefix("data: ")
    first, second = (client.post("/trial/call", json={**call, "task_id": task_id}).text for _ in range(2))
    assert first == second
    assert '"text":"waited"' in first
    assert pair[1].metric(count) == before + 1, "it ran once"
    client.post("/delete")


@pytest.mark.slow
def test_a_long_call_is_pinged_every_ten_seconds_as_the_sdk_does(pair: tuple[TrialServer, TrialServer]) -> None:
    def long_call(server: TrialServer) -> str:
        client = server.open("long")
        told = client.post("/trial/call", json={"name": "wait", "input": {"seconds": 21}}).text
        client.post("/delete")
        return re.sub(r"ping - [-\d:. +]+", "ping", re.sub(r"[0-9a-f]{32}", "ID", told))

    with ThreadPoolExecutor(2) as threads:
        expected, answer = threads.map(long_call, pair)
    assert answer == expected
    assert answer.count(": ping") == 2


def test_a_prompt_waits_for_setup(pair: tuple[TrialServer, TrialServer]) -> None:
    client = pair[1].open("setting-up", {"target": "a", "setup_seconds": 1})
    assert client.post("/ping").status_code == 200, "while it is being set up"
    assert client.get("/trial/prompt").json()[0]["text"] == "Say a."
    client.post("/delete")


def test_nothing_is_logged_about_an_ordinary_episode(pair: tuple[TrialServer, TrialServer]) -> None:
    server = pair[1]
    before = server.log()
    client = server.open("quiet")
    client.get("/trial/prompt").raise_for_status()
    client.post("/trial/call", json={"name": "say", "input": {"text": "a"}}).raise_for_status()
    client.post("/delete").raise_for_status()
    assert server.log() == before
