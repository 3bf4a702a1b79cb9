"""Keys and secrets stay out of the log, whatever happens."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
import structlog

from envs.server.redaction import Redaction
from tests.envs.trial import TrialServer, tool_call, trial_server

KEY = 'operators"key\\7QpL'
SECRET = "session-secret-z41x"
SHORT_SECRET = "z41x"
PASSWORD = "p'a\"s\\s/wörd😀-k82m"
PEM = "-----BEGIN KEY-----\nMIIEvQz5Jw+/n7\nAAx9KtLm22==\n-----END KEY-----\n"
TELLTALES = ("7QpL", "z41x", "k82m", "MIIEvQz5Jw", "AAx9KtLm22")


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server(ENV_API_KEY=KEY, ENV_LOG_LEVEL="debug") as running:
        yield running


def header(**secrets: str) -> str:
    named = {name: {"value": value, "allowed_domains": ["example.com"]} for name, value in secrets.items()}
    return base64.b64encode(json.dumps(named).encode()).decode()


def test_an_episode_that_leaks_all_it_can_leaves_no_secret_in_the_log(server: TrialServer) -> None:
    secrets = header(TOKEN=SECRET, PIN=SHORT_SECRET, PASSWORD=PASSWORD, PEM=PEM)
    client = server.open("leaky", **{"X-API-Key": KEY, "X-Secrets": secrets})
    told = tool_call(client, "leak")["error"]
    assert SECRET in told, "the client's own secret is told to the client, or the test tests nothing"
    tool_call(client, "crash", text=f"{SECRET} and {KEY}")
    client.get(f"/trial/nothing?key={KEY}")
    client.post("/create", json={"task_spec": {}})
    server.client("other", **{"X-API-Key": "wrong", "X-Secrets": secrets}).post("/create", json={"task_spec": {}})
    client.post("/delete")
    for target in ("broken setup", "broken prompt"):
        broken = server.open(target, {"target": target}, **{"X-API-Key": KEY, "X-Secrets": secrets})
        assert broken.get("/trial/prompt").status_code == 500
        broken.post("/delete")
    log = server.log()
    told_in = ("arguments", "as JSON", "not as a number", "could not convert", "are told", "cannot log in with")
    for part in (*told_in, "cannot set up with", "there is no prompt with"):
        assert part in log, "or the test tests nothing"
    assert "[hidden]" in log
    for value in (*TELLTALES, secrets):
        assert value not in log


def test_secrets_that_cannot_be_read_are_not_quoted(server: TrialServer) -> None:
    client = server.client("broken", **{"X-API-Key": KEY, "X-Secrets": base64.b64encode(SECRET.encode()).decode()})
    answer = client.post("/create", json={"task_spec": {"target": "a"}})
    assert answer.status_code == 400
    assert SECRET not in answer.text
    assert SECRET not in server.log()


def test_redaction_hides_the_longest_and_goes_on_after_the_session() -> None:
    redaction = Redaction(["the-key"])
    redaction.add("one", {"A": "secret", "B": "secret-and-more", "C": "no"})
    redaction.add("two", {"D": "other", "E": 12345, "F": {"user": ["inner"]}})
    assert (
        redaction("secret-and-more, secret, no, other, 12345, inner, the-key")
        == "[hidden], [hidden], no, [hidden], [hidden], [hidden], [hidden]"
    )
    redaction.keep({"two"})
    assert redaction("secret other the-key") == "[hidden] [hidden] [hidden]", "what it began may still log"


def test_redaction_forgets_in_the_end_and_keeps_no_more_than_there_is_room_for() -> None:
    forgetful = Redaction(["the-key"], kept_seconds=0)
    forgetful.add("one", {"A": "secret"})
    forgetful.add("two", {"A": "other"})
    forgetful.keep({"two"})
    assert forgetful("secret other the-key") == "secret [hidden] [hidden]"

    flooded = Redaction()
    flooded.add("open", {"A": "open-secret"})
    for number in range(100):
        flooded.add(f"flood{number}", {"A": f"{number:04}" * 10_000})
        flooded.keep({"open"})
    assert flooded("open-secret" + "0099" * 10_000 + "0000" * 10_000) == "[hidden]" * 2 + "0000" * 10_000


def test_redaction_hides_what_one_of_several_sessions_still_uses() -> None:
    forgetful = Redaction(["key-of-all"], kept_seconds=0)
    forgetful.add("one", {"A": "shared", "B": "key-of-all"})
    forgetful.add("two", {"A": "shared", "B": "former"})
    forgetful.add("two", {"A": "shared", "B": "later"})
    forgetful.keep({"two"})
    assert forgetful("shared, former, later, key-of-all") == "[hidden], former, [hidden], [hidden]"
    forgetful.keep(())
    assert forgetful("shared, former, later, key-of-all") == "shared, former, later, [hidden]"


def test_redaction_hides_at_every_moment_whatever_other_threads_do() -> None:
    redaction, done = Redaction(), threading.Event()
    redaction.add("one", {"A": SECRET})

    def open_and_close() -> None:
        while not done.is_set():
            redaction.add("two", {"A": SECRET, "B": SECRET[:6]})
            redaction.keep({"one"})

    other = threading.Thread(target=open_and_close)
    other.start()
    try:
        shown = {redaction(f"<{SECRET}>") for _ in range(20_000)}
    finally:
        done.set()
        other.join()
    assert shown == {"<[hidden]>"}


WAYS = {
    "as it is": str,
    "repr": repr,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "unicode_escape": lambda text: text.encode("unicode_escape").decode(),
    "bytes": lambda text: repr(text.encode()),
    "beside quotes": lambda text: repr({"'": '"', "value": text}),
    "logfmt": lambda text: structlog.processors.LogfmtRenderer()(None, "", {"value": text + " "}),
}


@pytest.mark.parametrize("secret", [PASSWORD, PEM, "\\\\host\\new'k82m\\", 'k82m"\t\\n', KEY], ids=range(5))
def test_redaction_knows_every_way_to_write_a_secret_and_ways_within_ways(secret: str) -> None:
    redaction = Redaction([secret])
    for first, second, third in itertools.product(WAYS, WAYS, WAYS):
        shown = redaction(WAYS[third](WAYS[second](WAYS[first](f"<{secret}>"))))
        assert "[hidden]" in shown
        assert not any(telltale in shown for telltale in TELLTALES), (first, second, third)
    for url in (quote(secret.strip()), quote(secret.strip(), safe=""), quote_plus(secret.strip())):
        assert redaction(f"/?key={url}&x") == "/?key=[hidden]&x"


def test_redaction_takes_one_line_of_several_where_it_stands_alone() -> None:
    redaction = Redaction([PEM])
    assert redaction("  | MIIEvQz5Jw+/n7") == "  | [hidden]"
    assert redaction(json.loads(json.dumps(json.dumps({"key": PEM})))).count("[hidden]") == 1
