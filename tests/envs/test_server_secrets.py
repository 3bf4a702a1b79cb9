"""Keys and secrets stay out of the log, whatever happens."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from envs.server.logs import Redaction
from tests.envs.trial import TrialServer, tool_call, trial_server

KEY = "operators-key-7QpL"
SECRET = "session-secret-z41x"
SHORT_SECRET = "z41x"


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server(ENV_API_KEY=KEY, ENV_LOG_LEVEL="debug") as running:
        yield running


def header(**secrets: str) -> str:
    named = {name: {"value": value, "allowed_domains": ["example.com"]} for name, value in secrets.items()}
    return base64.b64encode(json.dumps(named).encode()).decode()


def test_an_episode_that_leaks_all_it_can_leaves_no_secret_in_the_log(server: TrialServer) -> None:
    secrets = header(TOKEN=SECRET, PIN=SHORT_SECRET)
    client = server.open("leaky", **{"X-API-Key": KEY, "X-Secrets": secrets})
    told = tool_call(client, "leak")["error"]
    assert SECRET in told, "the client's own secret is told to the client, or the test tests nothing"
    tool_call(client, "crash", text=f"{SECRET} and {KEY}")
    client.get(f"/trial/nothing?key={KEY}")
    client.post("/create", json={"task_spec": {}})
    server.client("other", **{"X-API-Key": "wrong", "X-Secrets": secrets}).post("/create", json={"task_spec": {}})
    client.post("/delete")
    log = server.log()
    assert "cannot log in with" in log
    assert "[hidden]" in log
    for value in (KEY, SECRET, SHORT_SECRET, secrets):
        assert value not in log


def test_secrets_that_cannot_be_read_are_not_quoted(server: TrialServer) -> None:
    client = server.client("broken", **{"X-API-Key": KEY, "X-Secrets": base64.b64encode(SECRET.encode()).decode()})
    answer = client.post("/create", json={"task_spec": {"target": "a"}})
    assert answer.status_code == 400
    assert SECRET not in answer.text
    assert SECRET not in server.log()


def test_redaction_hides_the_longest_first_and_forgets_with_the_session() -> None:
    redaction = Redaction(["the-key"])
    redaction.add("one", {"A": "secret", "B": "secret-and-more", "C": "no"})
    redaction.add("two", {"D": "other", "E": 12345})
    assert (
        redaction("secret-and-more, secret, no, other, 12345, the-key")
        == "[hidden], [hidden], no, [hidden], [hidden], [hidden]"
    )
    redaction.keep({"two"})
    assert redaction("secret other the-key") == "secret [hidden] [hidden]"
