"""`/health`, `/ready` and `/metrics`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.envs.trial import TrialServer, score, tool_call, trial_server, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server() as running:
        yield running


def test_health_says_what_the_sdk_says(server: TrialServer) -> None:
    assert server.client().get("/health").json() == {"status": "ok"}


def test_ready_opens_a_session_and_leaves_none(server: TrialServer) -> None:
    answer = server.client().get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})
    assert server.metric("ors_sessions_open") == 0


@pytest.mark.parametrize("path", ["/ready", "/metrics", "/", "/page/page.css"])
def test_own_paths_answer_get_and_head_only(server: TrialServer, path: str) -> None:
    client = server.client()
    assert client.head(path).status_code == 200
    assert client.head(path).content == b""
    refused = client.post(path)
    assert (refused.status_code, refused.json()) == (405, {"detail": "Method Not Allowed"})
    assert refused.headers["allow"] == "GET, HEAD"


def test_a_server_whose_tasks_cannot_be_read_is_alive_but_not_ready() -> None:
    with trial_server(TRIAL_TASKS="missing") as server:
        assert server.client().get("/health").status_code == 200
        answer = server.client().get("/ready")
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "detail": "trial: FileNotFoundError: tasks.json is not there"}
        assert int(answer.headers["retry-after"]) > 0


def test_ready_can_be_had_without_opening_a_session() -> None:
    with trial_server(TRIAL_CONSTRUCTOR="broken", ENV_READY_CREATE="no") as server:
        assert server.client().get("/ready").status_code == 200
    with trial_server(TRIAL_CONSTRUCTOR="broken") as server:
        answer = server.client().get("/ready")
        assert (answer.status_code, answer.json()["detail"]) == (503, "trial: RuntimeError: no licence")


def test_a_check_that_hangs_is_not_waited_for_and_ends_in_the_background(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    slow = {"TRIAL_SETUP": "slow", "TRIAL_SETUP_SECONDS": "10", "TRIAL_MARK": str(marks)}
    with trial_server(ENV_READY_SECONDS="1", **slow) as server:
        for _ in range(2):
            answer = server.client().get("/ready")
            assert answer.status_code == 503
            assert answer.json()["detail"] == "slow_setup: the check did not end within 1 s"
            assert marks.read_text().splitlines() == ["setting up"], "nobody waited for it"
        until(lambda: "torn down" in marks.read_text(), "the session is torn down")
        assert marks.read_text().splitlines() == ["setting up", "set up", "torn down"]


def test_a_check_that_hangs_keeps_no_server_from_stopping(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    slow = {"TRIAL_SETUP": "slow", "TRIAL_SETUP_SECONDS": "300", "TRIAL_MARK": str(marks)}
    with trial_server(ENV_READY_SECONDS="1", **slow) as server:
        assert server.client().get("/ready").status_code == 503
        server.client("one").post("/create", json={"task_spec": {}}).raise_for_status()
        until(lambda: marks.read_text().splitlines() == ["setting up"] * 2, "the session is set up as well")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0


def test_what_the_client_is_told_without_the_text_of_exceptions() -> None:
    with trial_server(ENV_SHOW_ERRORS="no", TRIAL_CONSTRUCTOR="broken") as server:
        answer = server.client().get("/ready")
        assert answer.status_code == 503
        assert answer.json()["detail"] == "trial: the check failed; the reason is in the server's log"
        assert "no licence" in server.log()
    with trial_server(ENV_SHOW_ERRORS="no") as server:
        rejected = server.client("one").post("/create", json={"task_spec": {"password": "hunter2"}})
        assert rejected.status_code == 400
        assert rejected.json()["detail"] == "The environment rejected the task_spec; the reason is in the server's log."
        assert "KeyError: 'target'" in server.log()
        told = [tool_call(server.open("two"), "crash", text="hunter2")["error"]]
        told += [score(server.open("three", {"target": "broken score"}))["error"]]
        for target in ("broken prompt", "broken setup"):
            told.append(server.open(target, {"target": target}).get("/trial/prompt").json()["detail"])
        assert told == [
            "the tool failed; the reason is in the server's log",
            "the environment failed; the reason is in the server's log",
            "Internal Server Error",
            "Internal Server Error",
        ]
        for reason in ("hunter2", "no scores from", "there is no prompt with", "cannot set up with"):
            assert reason in server.log()


def test_metrics_are_prometheus_and_count_what_happened(server: TrialServer) -> None:
    opened, ended = server.metric("ors_sessions_created_total"), 'ors_sessions_ended_total{reason="deleted"}'
    deleted = server.metric(ended)
    client = server.open("metrics")
    for text in ("x", "y"):
        tool_call(client, "say", text=text)
    tool_call(client, "crash", text="boom")
    tool_call(client, "no_such_tool")
    tool_call(client, "say", wrong="argument")
    assert server.metric("ors_sessions_open") == 1
    client.post("/delete")
    client.post("/delete")

    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["content-type"].endswith("charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    calls = {
        (sample.labels["tool"], sample.labels["outcome"]): sample.value
        for sample in families["ors_tool_calls"].samples
        if sample.name == "ors_tool_calls_total"
    }
    assert calls == {
        ("say", "success"): 2,
        ("say", "input_validation"): 1,
        ("crash", "error"): 1,
        ("", "not_found"): 1,
    }, "a made-up tool makes no time series"
    seconds = {
        sample.labels["tool"]: sample.value
        for sample in families["ors_tool_call_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert seconds == {"say": 3, "crash": 1, "": 1}
    assert server.metric("ors_sessions_created_total") == opened + 1
    assert server.metric(ended) == deleted + 1
    assert server.metric("ors_sessions_open") == 0
    assert server.metric("ors_tool_calls_running") == 0
    assert "process_resident_memory_bytes" in families
