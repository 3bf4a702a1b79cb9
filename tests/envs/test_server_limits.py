"""What happens when a client reaches a limit."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.envs.trial import TrialServer, score, tool_call, trial_server, until

pytestmark = pytest.mark.slow

FIRST_TASK = {"split": "train", "index": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    limits = {
        "ENV_MAX_SESSIONS": "3",
        "ENV_MAX_BODY_BYTES": "1000",
        "ENV_MAX_CALLS": "3",
        "ENV_CALL_SECONDS": "2",
    }
    with trial_server(**limits) as running:
        yield running


@pytest.fixture(autouse=True)
def no_session_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        assert request.getfixturevalue("server").metric("ors_sessions_open") == 0


def test_a_session_too_many_is_sent_away_and_let_in_once_there_is_room(server: TrialServer) -> None:
    open_sessions = [server.open(f"s{number}") for number in range(3)]
    late = server.client("late")
    refused = late.post("/create", json=FIRST_TASK)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "3 sessions" in refused.json()["detail"]
    assert json.loads(tool_call(open_sessions[1], "say", text="x")["end"])["ok"], "the open sessions go on"
    assert server.metric("ors_sessions_open") == 3
    assert server.metric('ors_requests_refused_total{reason="sessions"}') >= 1
    open_sessions[0].post("/delete").raise_for_status()
    assert late.post("/create", json=FIRST_TASK).status_code == 200
    for client in (*open_sessions, late):
        client.post("/delete")


def test_an_open_session_is_told_so_when_all_are_in_use(server: TrialServer) -> None:
    open_sessions = [server.open(f"s{number}") for number in range(3)]
    again = open_sessions[0].post("/create", json=FIRST_TASK)
    assert (again.status_code, again.json()) == (400, {"detail": "Session already exists"})
    for client in open_sessions:
        client.post("/delete")


def test_a_session_that_is_being_torn_down_is_in_use_and_its_id_too(server: TrialServer, tmp_path: Path) -> None:
    once = tmp_path / "once"
    with ThreadPoolExecutor(3) as threads:
        closing = [server.open(f"s{number}", {"target": "a", "torn_down_once": str(once)}) for number in range(3)]
        deletes = [threads.submit(client.post, "/delete") for client in closing]
        until(lambda: all(client.post("/ping").status_code == 404 for client in closing), "all are being torn down")
        late = server.client("late").post("/create", json=FIRST_TASK)
        again = closing[0].post("/create", json={"task_spec": {"target": "broken setup"}})
        assert server.metric("ors_sessions_open") == 3
        prompt = closing[0].get("/trial/prompt")
        once.touch()
        assert [delete.result().status_code for delete in deletes] == [200] * 3
    assert late.status_code == 429
    assert again.status_code == 400
    assert "torn down" in again.json()["detail"]
    assert prompt.status_code == 404
    assert closing[0].post("/create", json=FIRST_TASK).status_code == 200, "once it is over, the id is free"
    closing[0].post("/delete")


def test_sessions_that_are_being_opened_count(server: TrialServer) -> None:
    clients = [server.client(f"rush{number}") for number in range(12)]
    with ThreadPoolExecutor(len(clients)) as threads:
        statuses = list(threads.map(lambda client: client.post("/create", json=FIRST_TASK).status_code, clients))
    assert sorted(statuses) == [200] * 3 + [429] * 9
    for client in clients:
        client.post("/delete")


def test_one_id_opened_by_many_at_once_is_one_session(server: TrialServer) -> None:
    created = server.metric("ors_sessions_created_total")
    clients = [server.client("same") for _ in range(8)]
    with ThreadPoolExecutor(len(clients)) as threads:
        statuses = list(threads.map(lambda client: client.post("/create", json=FIRST_TASK).status_code, clients))
    assert sorted(statuses) == [200] + [400] * 7
    assert server.metric("ors_sessions_created_total") == created + 1
    clients[0].post("/delete")


def test_a_body_that_is_too_long_is_refused_whether_or_not_it_says_so(server: TrialServer) -> None:
    client = server.client()
    announced = client.post("/trial/num_tasks", content=b" " * 1001)
    streamed = client.post("/trial/num_tasks", content=(b" " * 100 for _ in range(11)))
    for response in (announced, streamed):
        assert response.status_code == 413
        assert response.json() == {"detail": "The request's body is longer than 1000 bytes."}
    assert server.metric('ors_requests_refused_total{reason="body"}') == 2


def test_a_body_of_just_the_limit_is_read_however_it_is_sent(server: TrialServer) -> None:
    client = server.client(**{"content-type": "application/json"})
    body = json.dumps({"split": "train"}).encode().ljust(1000)
    whole = client.post("/trial/num_tasks", content=body)
    pieces = client.post("/trial/num_tasks", content=(body[at : at + 100] for at in range(0, 1000, 100)))
    assert whole.json() == pieces.json() == {"num_tasks": 2}


def test_a_request_that_never_ends_is_cut_off(server: TrialServer) -> None:
    head = b"POST /trial/num_tasks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: "
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(head)
        until(lambda: not accepts(connection, b"x" * 2**16), "the endless trailer is cut off", seconds=15)


def accepts(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def test_calls_after_the_last_are_refused_in_the_protocols_words(server: TrialServer) -> None:
    client, other = server.open("one"), server.open("two")
    for _ in range(3):
        assert json.loads(tool_call(client, "say", text="x")["end"])["ok"]
    assert json.loads(tool_call(client, "say", text="a")["end"]) == {
        "ok": False,
        "error": "this session has used up its 3 tool calls",
        "reason": "episode_finished",
    }
    assert json.loads(tool_call(other, "say", text="x")["end"])["ok"], "another session has its own three"
    for session in (client, other):
        session.post("/delete")


@pytest.mark.parametrize("tool", ["wait", "block"])
def test_a_call_that_takes_too_long_ends_as_an_error(server: TrialServer, tool: str) -> None:
    client = server.open("slow")
    assert tool_call(client, tool, seconds=6)["error"] == (
        f"{tool!r} was cut off after 2 s, the longest that a call may take"
    )
    assert server.metric(f'ors_tool_calls_total{{environment="trial",outcome="timeout",tool="{tool}"}}') == 1
    assert json.loads(tool_call(client, "say", text="x")["end"])["ok"], "the session goes on"
    client.post("/delete")


def test_whatever_else_a_client_waits_for_has_the_same_time(server: TrialServer) -> None:
    client = server.open("slow", {"target": "a", "score_seconds": 300, "prompt_seconds": 8})
    assert score(client)["error"] == "'score_group' was cut off after 2 s, the longest that a call may take"
    late = client.get("/trial/prompt")
    assert late.status_code == 500
    assert late.json() == {"detail": "'get_prompt' was cut off after 2 s, the longest that a call may take"}
    assert client.get("/trial/messages").status_code == 500
    assert server.metric('ors_requests_refused_total{reason="time"}') == 3
    assert json.loads(tool_call(client, "say", text="x")["end"])["ok"], "the session goes on"
    client.post("/delete")


def test_a_setup_may_take_longer_than_a_call(server: TrialServer) -> None:
    client = server.open("slow", {"target": "a", "setup_seconds": 4})
    assert client.get("/trial/prompt").json()[0]["text"] == "Say a."
    client.post("/delete")


def test_an_idle_session_is_torn_down_and_one_in_use_is_not(tmp_path: Path) -> None:
    mark = tmp_path / "torn-down"
    mark.touch()
    with trial_server(ENV_IDLE_SECONDS="4", TRIAL_MARK=str(mark)) as server, ThreadPoolExecutor(2) as threads:
        idle = server.open("idle", {"target": "idle"})
        calling = server.open("calling", {"target": "calling"})
        call = threads.submit(tool_call, calling, "wait", seconds=8)
        scoring = threads.submit(score, server.open("scoring", {"target": "scoring", "score_seconds": 8}))
        pinging = server.open("pinging", {"target": "pinging"})
        until(
            lambda: pinging.post("/ping").status_code == 200 and "idle" in mark.read_text().split(),
            "the idle session ends, the one that is pinged goes on",
        )
        assert idle.post("/ping").status_code == 404
        assert json.loads(call.result()["end"])["ok"], "a running call keeps its session, though nobody pings"
        assert "end" in scoring.result(), "as does a group that is being scored"
        until(lambda: len(mark.read_text().split()) == 5, "the others end when they are not used any more")
        assert server.metric('ors_sessions_ended_total{reason="idle"}') == 4
        assert server.metric("ors_sessions_open") == 0
