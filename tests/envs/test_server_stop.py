"""How a server ends: not ready at once, running calls finish, sessions are torn down, status 0."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.envs.trial import TrialServer, score, tool_call, trial_server, until

pytestmark = pytest.mark.slow


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def running_calls(server: TrialServer) -> float:
    return server.metric("ors_tool_calls_running")


def test_a_running_call_finishes_while_nothing_new_begins(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    mark = tmp_path / "torn-down"
    with trial_server(TRIAL_MARK=str(mark), ENV_DRAIN_SECONDS="20") as server:
        client, other = server.open("one", {"target": "one"}), server.open("two", {"target": "two"})
        call = threads.submit(tool_call, client, "wait", seconds=6)
        until(lambda: running_calls(server) == 1, "the call runs")
        server.process.send_signal(signal.SIGTERM)
        until(lambda: other.get("/ready").status_code == 503, "the server is not ready")
        assert other.get("/health").status_code == 200
        for path, body in [
            ("/create_session", {}),
            ("/create", {"split": "train", "index": 0}),
            ("/trial/call", {"name": "say", "input": {"text": "x"}}),
            ("/trial/score_group", {"candidates": []}),
        ]:
            refused = other.post(path, json=body)
            assert refused.status_code == 503, path
            assert refused.json() == {"detail": "This server is stopping."}
            assert int(refused.headers["retry-after"]) > 0
        assert not call.done()
        assert json.loads(call.result()["end"])["ok"], "the running call finished"
        assert server.process.wait(20) == 0
        assert sorted(mark.read_text().split()) == ["one", "two"]
        assert server.log().count("\n") == 0


def test_a_group_that_is_being_scored_and_a_prompt_finish_too(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    with trial_server(TRIAL_MARK=str(marks), ENV_DRAIN_SECONDS="20") as server:
        client = server.open("one", {"target": "a", "score_seconds": 5, "prompt_seconds": 5})
        scoring, asking = threads.submit(score, client), threads.submit(client.get, "/trial/prompt")
        until(lambda: set(marks.read_text().splitlines()) == {"scoring", "asked"}, "both run")
        server.process.send_signal(signal.SIGTERM)
        assert json.loads(scoring.result()["end"])["scores"][0]["reward"] == 0.5
        assert asking.result().json()[0]["text"] == "Say a."
        assert server.process.wait(20) == 0


def test_a_prompt_that_does_not_finish_is_cut_off(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    with trial_server(TRIAL_MARK=str(marks), ENV_DRAIN_SECONDS="0.5") as server:
        asking = threads.submit(server.open("one", {"target": "a", "prompt_seconds": 300}).get, "/trial/prompt")
        until(marks.read_text, "it runs")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert asking.result().status_code == 503
        assert asking.result().json() == {"detail": "'get_prompt' was cut off: the server is stopping"}
        assert int(asking.result().headers["retry-after"]) > 0


SAY = {"name": "say", "input": {"text": "x"}}


def told_to_stop_in_a_setup(
    server: TrialServer, threads: ThreadPoolExecutor, seconds: float
) -> tuple[Future[Any], Future[Any]]:
    """A prompt and a call that wait for a setup of so many seconds while the server is told to stop."""
    client = server.open("one", {"target": "a", "setup_seconds": seconds})
    asking = threads.submit(client.get, "/trial/prompt")
    calling = threads.submit(client.post, "/trial/call", json=SAY)
    until(lambda: server.metric("ors_requests_unanswered") == 2, "both wait")
    server.process.send_signal(signal.SIGTERM)
    return asking, calling


def test_what_waits_for_a_setup_finishes_too(threads: ThreadPoolExecutor) -> None:
    with trial_server(ENV_DRAIN_SECONDS="30") as server:
        asking, calling = told_to_stop_in_a_setup(server, threads, 5)
        assert asking.result().json()[0]["text"] == "Say a."
        assert '"ok":true' in calling.result().text
        assert server.process.wait(20) == 0


def test_what_still_waits_for_a_setup_is_cut_off_as_any_refusal_is_told(threads: ThreadPoolExecutor) -> None:
    with trial_server(ENV_DRAIN_SECONDS="0.5") as server:
        asking, calling = told_to_stop_in_a_setup(server, threads, 300)
        for answer in (asking.result(), calling.result()):
            assert answer.status_code == 503
            assert answer.json() == {"detail": "The request was cut off: the server is stopping."}
            assert int(answer.headers["retry-after"]) > 0
        assert server.process.wait(10) == 0
        assert server.log() == ""


def test_a_call_that_lost_its_connection_can_still_be_fetched(threads: ThreadPoolExecutor) -> None:
    with trial_server(ENV_DRAIN_SECONDS="20") as server:
        client = server.open("one")
        with client.stream("POST", "/trial/call", json={"name": "wait", "input": {"seconds": 6}}) as stream:
            task_id = next(line for line in stream.iter_lines() if line.startswith("data: ")).removeprefix("data: ")
        server.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/ready").status_code == 503, "the server is not ready")
        resumed = client.post("/trial/call", json={"name": "wait", "input": {"seconds": 6}, "task_id": task_id})
        assert '"ok":true' in resumed.text


@pytest.mark.parametrize("tool", ["wait", "block"])
def test_a_call_that_does_not_finish_is_cut_off(tool: str, threads: ThreadPoolExecutor) -> None:
    with trial_server(ENV_DRAIN_SECONDS="0.5") as server:
        client = server.open("one")
        call = threads.submit(tool_call, client, tool, seconds=300)
        until(lambda: running_calls(server) == 1, "the call runs")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert call.result()["error"] == f"{tool!r} was cut off: the server is stopping"


def test_a_session_that_ends_while_it_is_set_up_is_torn_down_after_that(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    with trial_server(TRIAL_SETUP="slow", TRIAL_MARK=str(marks)) as server:
        client = server.open("one")
        until(marks.read_text, "the setup has begun")
        client.post("/delete").raise_for_status()
        assert marks.read_text().splitlines() == ["setting up", "set up", "torn down"]


def test_a_teardown_that_does_not_end_is_left_alone() -> None:
    with trial_server() as server:
        server.open("one", {"target": "one", "teardown_seconds": 300})
        server.open("two", {"target": "two"})
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert "teardown took longer" in server.log()


def test_ctrl_c_ends_an_idle_server_with_status_0() -> None:
    with trial_server() as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert server.log() == ""


def test_a_second_ctrl_c_does_not_wait_for_anything(threads: ThreadPoolExecutor) -> None:
    with trial_server(ENV_DRAIN_SECONDS="100") as server:
        call = threads.submit(tool_call, server.open("one"), "wait", seconds=300)
        until(lambda: running_calls(server) == 1, "the call runs")
        server.process.send_signal(signal.SIGINT)
        until(lambda: server.client().get("/ready").status_code == 503, "the server is not ready")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert call.exception() is not None
