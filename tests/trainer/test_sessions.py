"""Sessions on a server: opened together, kept alive, given up in time, closed for certain."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.servers import free_port, running
from tests.trainer.conftest import WORKSHOP, record, until
from tests.trainer.one_session import call_one, failure_of, hold_the_gil, open_one
from tests.trainer.scripted_server import Protocol, Reply, Request, ScriptedServer, scripted
from trainer.ors import loop
from trainer.ors.discovery import read_tasks
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure, ToolRefused
from trainer.ors.outcomes import Outcome

pytestmark = pytest.mark.slow


# ── opening ────────────────────────────────────────────────────────


def test_sessions_open_together(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    openings = [loop.open_session(endpoint, "slow", 0) for _ in range(32)]
    sessions = [opening.result(60) for opening in openings]
    told = record(workshop)
    assert len({session.sid for session in sessions}) == 32
    assert {session.prompt for session in sessions} == {"Make alpha."}
    assert told["most"]["setups"] > 16
    assert sum(request["path"] == "/list_environments" for request in told["requests"]) == 1


def test_max_concurrency_bounds_what_the_server_sees(workshop: str) -> None:
    endpoint = Endpoint(workshop, max_concurrency=3, keepalive=600)
    openings = [loop.open_session(endpoint, "slow", 0) for _ in range(12)]
    sessions = [opening.result(60) for opening in openings]
    calls = [loop.call_tools(endpoint, session, [("wait", {"seconds": 0.2})]) for session in sessions]
    assert all(isinstance(call.result(60)[0][0], Outcome) for call in calls)
    most = record(workshop)["most"]
    assert (most["setups"], most["waits"]) == (3, 3)


def test_max_concurrency_bounds_the_reading_of_tasks_and_the_closing_too() -> None:
    now, most = Counter[str](), Counter[str]()

    class Slow(Protocol):
        async def __call__(self, request: Request, reply: Reply) -> None:
            now[request.path] += 1
            most[request.path] = max(most[request.path], now[request.path])
            await asyncio.sleep(0.02)
            await super().__call__(request, reply)
            now[request.path] -= 1

    protocol = Slow()
    protocol.tasks["train"] = [{"n": number} for number in range(40)]
    with scripted(protocol) as server:
        endpoint = Endpoint(server.url, max_concurrency=3)
        assert len(loop.on_connection(endpoint, partial(read_tasks, split="train", indices=range(0, 40, 2)))) == 20
        sessions = [open_one(endpoint) for _ in range(12)]
        for session in sessions:
            loop.close_session(endpoint, session)
        until(lambda: len(protocol.deleted) == 12)
        assert (most["/shop/task"], most["/delete"]) == (3, 3)


def test_waiting_for_a_free_place_does_not_count_as_opening_or_calling(workshop: str) -> None:
    endpoint = Endpoint(workshop, max_concurrency=1, open_timeout=4.0, call_timeout=4.0)
    openings = [loop.open_session(endpoint, "slow", 0) for _ in range(21)]
    sessions = [opening.result(60) for opening in openings]
    calls = [loop.call_tools(endpoint, session, [("wait", {"seconds": 0.2})]) for session in sessions]
    assert all(isinstance(call.result(60)[0][0], Outcome) for call in calls)


def test_a_failed_opening_is_tried_again_on_a_fresh_session_and_the_half_open_one_deleted(workshop: str) -> None:
    assert open_one(Endpoint(workshop), 2, "failing").prompt == "Make alpha."
    until(lambda: record(workshop)["open"] == 1)
    assert record(workshop)["ran"] == {"setup": 3, "teardown": 2}


def test_an_environment_that_always_fails_is_given_up_after_a_few_attempts(workshop: str) -> None:
    failure = failure_of(lambda: open_one(Endpoint(workshop), 3, "failing"))
    assert failure.kind == "crash"
    assert "no room today" in str(failure)
    until(lambda: record(workshop)["open"] == 0)
    assert record(workshop)["ran"]["setup"] == 3


def test_a_task_that_does_not_exist_is_refused_at_once(workshop: str) -> None:
    failure = failure_of(lambda: open_one(Endpoint(workshop), 99))
    assert failure.kind == "refused"
    assert "Invalid index" in str(failure)


def test_a_connection_lost_in_the_middle_of_opening_is_tried_again() -> None:
    async def create(request: Request, reply: Reply) -> None:
        if server.count("/create") == 1:
            reply.reset()
        else:
            await protocol._create(request, reply)

    protocol = Protocol(create=create)
    with scripted(protocol) as server:
        assert open_one(Endpoint(server.url)).prompt == "train 0"
        until(lambda: len(protocol.deleted) == 1)
        assert server.count("/create_session") == 2


@pytest.mark.parametrize("stalled", ["list_environments", "create_session", "create", "prompt"])
def test_a_server_that_stalls_is_given_up_within_the_limit(stalled: str) -> None:
    async def stall(request: Request, reply: Reply) -> None:
        await asyncio.sleep(60)

    with scripted(Protocol(**{stalled: stall})) as server:
        start = time.monotonic()
        failure = failure_of(lambda: open_one(Endpoint(server.url, open_timeout=1.0)))
        assert failure.kind == "timeout"
        assert time.monotonic() - start < 20


def test_a_server_that_stalls_now_and_then_is_given_up_within_the_limit() -> None:
    async def create(request: Request, reply: Reply) -> None:
        await asyncio.sleep(0.9)
        reply.reset()

    with scripted(Protocol(create=create)) as server:
        failure_of(lambda: open_one(Endpoint(server.url, open_timeout=1.0)))
        assert server.count("/create_session") <= 2


def test_a_backend_that_is_starting_is_waited_for_longer_than_the_limit() -> None:
    async def prompt(request: Request, reply: Reply) -> None:
        if server.count("/shop/prompt") == 1:
            await reply.json({"detail": "starting"}, 503, X_Backend_State="starting", Retry_After="6")
        else:
            await protocol._prompt(request, reply)

    protocol = Protocol(prompt=prompt)
    with scripted(protocol) as server:
        assert open_one(Endpoint(server.url, open_timeout=5)).prompt == "train 0"
        assert server.count("/create") == 1


def test_a_backend_that_starts_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_STARTING_RIDE_OUT_S", "5")

    async def prompt(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "starting"}, 503, X_Backend_State="starting", Retry_After="2")

    with scripted(Protocol(prompt=prompt)) as server:
        assert failure_of(lambda: open_one(Endpoint(server.url, open_timeout=5))).starting


def test_a_session_still_being_created_when_it_is_given_up_is_deleted_after_that() -> None:
    given_up = threading.Event()

    async def create(request: Request, reply: Reply) -> None:
        await asyncio.to_thread(given_up.wait, 30)
        await protocol._create(request, reply)

    protocol = Protocol(create=create)
    with scripted(protocol) as server:
        failure_of(lambda: open_one(Endpoint(server.url, open_timeout=3.0)))
        assert not protocol.deleted
        given_up.set()
        until(lambda: len(protocol.deleted) == 1)
        assert list(protocol.sessions) == protocol.deleted


@pytest.mark.parametrize("answer", [None, {"no": "blocks"}, "text", ["text"], 7, [None]])
def test_a_prompt_outside_the_standard_is_a_failure_of_the_environment(answer: Any) -> None:
    async def prompt(request: Request, reply: Reply) -> None:
        await reply.json(answer)

    with scripted(Protocol(prompt=prompt)) as server:
        if answer is None:
            assert open_one(Endpoint(server.url)).prompt == ""
        else:
            assert failure_of(lambda: open_one(Endpoint(server.url, open_timeout=5))).kind == "crash"


@pytest.mark.parametrize("answer", [None, 7, {"detail": "x"}, []])
def test_a_list_of_environments_outside_the_standard_is_said_clearly(answer: Any) -> None:
    async def environments(request: Request, reply: Reply) -> None:
        await reply.json(answer)

    from trainer.ors.errors import ORSError

    with scripted(Protocol(list_environments=environments)) as server, pytest.raises(ORSError) as caught:
        open_one(Endpoint(server.url, open_timeout=5, env_name="shop"))
    assert server.url in str(caught.value)


# ── a server that is away ──────────────────────────────────────────


def test_a_dead_server_is_tried_for_the_limit_and_then_once_and_its_return_is_noticed() -> None:
    port = free_port()
    endpoint = Endpoint(f"http://127.0.0.1:{port}", open_timeout=4.0)
    failure = failure_of(lambda: open_one(endpoint))
    assert failure.kind == "unreachable"
    assert not failure.reached
    [outage] = loop.outages()
    assert outage.name == endpoint.address
    assert time.time() - outage.since >= 3.0
    assert "no connection" in outage.last_error

    server = ScriptedServer(Protocol(), port)
    assert open_one(endpoint).prompt == "train 0"
    assert loop.outages() == []
    server.close()

    async def reset(request: Request, reply: Reply) -> None:
        reply.reset()

    server = ScriptedServer(reset, port)
    failure_of(lambda: open_one(endpoint))
    since, requests = loop.outages()[0].since, len(server.requests)
    assert requests > 1
    failure_of(lambda: open_one(endpoint))
    assert len(server.requests) == requests + 1
    assert loop.outages()[0].since == since
    server.close()

    server = ScriptedServer(Protocol(), port)
    assert open_one(endpoint).prompt == "train 0"
    assert loop.outages() == []
    server.close()


def test_one_environment_away_does_not_make_another_one_so(workshop: str) -> None:
    failure_of(lambda: open_one(Endpoint(f"http://127.0.0.1:{free_port()}", open_timeout=0.2)))
    open_one(Endpoint(workshop))
    assert len(loop.outages()) == 1


def test_a_server_that_comes_up_late_is_waited_for() -> None:
    port = free_port()
    opening = loop.open_session(Endpoint(f"http://127.0.0.1:{port}"), "train", 0)
    server = ScriptedServer(Protocol(), port)
    assert opening.result(30).prompt == "train 0"
    server.close()


# ── calling ────────────────────────────────────────────────────────


def test_a_tool_that_takes_too_long_is_given_up(workshop: str) -> None:
    endpoint = Endpoint(workshop, call_timeout=0.5)
    answer = call_one(endpoint, open_one(endpoint), "wait", seconds=60)
    assert isinstance(answer, EnvironmentFailure)
    assert answer.kind == "timeout"
    assert "'wait'" in str(answer)


def test_the_calls_of_a_turn_keep_their_order_and_end_with_the_episode(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    calls = [("score", {"reward": 0.5}), ("score", {"reward": 1.0, "finished": True}), ("score", {"reward": 2.0})]
    answers = [answer for answer, _ in loop.call_tools(endpoint, open_one(endpoint), calls).result(60)]
    assert [answer.reward for answer in answers[:2]] == [0.5, 1.0]
    assert isinstance(answers[2], ToolRefused)
    assert answers[2].reason == "after_end"
    assert record(workshop)["ran"]["score"] == 2


def test_nothing_is_sent_after_a_failure_of_the_environment(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    calls = [("crash", {}), ("say", {"text": "a"})]
    answers = [answer for answer, _ in loop.call_tools(endpoint, open_one(endpoint), calls).result(60)]
    assert [getattr(answer, "kind", None) for answer in answers] == ["crash", "crash"]
    assert "the saw is broken" in str(answers[0])
    assert "say" not in record(workshop)["ran"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("nothing_like_it", {}, "unknown_tool"),
        ("say", {"text": [1]}, "bad_arguments"),
        ("say", {}, "bad_arguments"),
        ("say", {"text": float("nan")}, "bad_arguments"),
        ("say", {"text": {1, 2}}, "bad_arguments"),
    ],
)
def test_the_models_mistakes_are_told_from_failures(
    workshop: str, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    endpoint = Endpoint(workshop)
    session = open_one(endpoint)
    answer = call_one(endpoint, session, tool, **arguments)
    assert isinstance(answer, ToolRefused)
    assert answer.reason == reason
    assert call_one(endpoint, session, "say", text="on").text == "on"


@pytest.mark.parametrize(
    "result",
    [
        "null",
        "[]",
        '{"ok": true}',
        '{"ok": true, "output": 7}',
        '{"ok": true, "output": {"blocks": 7}}',
        '{"ok": true, "output": {"blocks": ["text"]}}',
        '{"ok": false}',
        '{"ok": false, "error": "x", "reason": ["list"]}',
        '{"ok": false, "error": "two tools", "reason": "name_collision"}',
    ],
)
def test_a_result_outside_the_standard_is_a_failure_of_the_environment(result: str) -> None:
    async def call(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"), ("end", result))

    with scripted(Protocol(call=call)) as server:
        endpoint = Endpoint(server.url)
        answer = call_one(endpoint, open_one(endpoint), "add", n=1)
        assert isinstance(answer, EnvironmentFailure)
        assert answer.kind == "crash"
        assert "add" in str(answer)


@pytest.mark.parametrize(
    ("output", "reward", "text"),
    [
        ({"blocks": [], "reward": None}, None, "(no output)"),
        ({"blocks": [{"type": "text", "text": ""}], "reward": 0}, 0.0, "(no output)"),
        ({"blocks": None, "reward": "1"}, None, "(no output)"),
        ({"blocks": [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]}, None, "a\n b"),
        ({"blocks": [], "reward": float("inf")}, None, "(no output)"),
        ({"blocks": [], "reward": 1e39}, None, "(no output)"),
        ({"blocks": [], "reward": -(10**400)}, None, "(no output)"),
        ({"blocks": [], "reward": 3.4028235e38}, 3.4028235e38, "(no output)"),
        ({"blocks": [{"type": "image", "data": "x", "mimeType": "image/png"}], "reward": -1.5}, -1.5, "[image/png"),
    ],
)
def test_rewards_and_text_are_read_from_the_output(output: dict[str, Any], reward: float | None, text: str) -> None:
    protocol = Protocol()
    protocol.output = output
    with scripted(protocol) as server:
        endpoint = Endpoint(server.url)
        answer = call_one(endpoint, open_one(endpoint), "add", n=1)
        assert answer.reward == reward
        assert answer.text.startswith(text)


def test_a_session_that_is_gone_is_said_to_be_and_not_asked_again() -> None:
    port = free_port()
    server = ScriptedServer(Protocol(), port)
    endpoint = Endpoint(server.url, keepalive=600)
    session = open_one(endpoint)
    server.close()

    async def gone(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "Active environment not found"}, 404)

    server = ScriptedServer(Protocol(call=gone), port)
    for _ in range(2):
        answer = call_one(endpoint, session, "add", n=1)
        assert isinstance(answer, EnvironmentFailure)
        assert answer.kind == "unreachable"
        assert "the server was restarted" in str(answer)
    assert server.count("/shop/call") == 1
    server.close()


def test_a_call_that_is_not_even_connected_is_the_environments_failure() -> None:
    async def others(request: Request, reply: Reply) -> None:
        await reply.json(["bakery"])

    port = free_port()
    endpoint = Endpoint(f"http://127.0.0.1:{port}", env_name="shop")

    def answers() -> list[Any]:
        loop.close_all()
        return loop.call_tools(endpoint, session, [("add", {"n": 1})] * 2).result(60)

    with scripted(Protocol(), port):
        session = open_one(endpoint)
    (away, _), (same, seconds) = answers()
    assert isinstance(away, EnvironmentFailure)
    assert (same, seconds) == (away, 0.0), "the second was not sent"
    with scripted(Protocol(list_environments=others), port):
        other = answers()[0][0]
    assert isinstance(other, EnvironmentFailure)
    assert "bakery" in str(other)


def test_no_connection_is_said_in_the_words_of_the_operating_system() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    said = str(failure_of(lambda: open_one(Endpoint(url, open_timeout=0.2))))
    assert said == f"environment at {url}: no connection: Connection refused"


@pytest.mark.slow
def test_a_restarted_server_does_not_know_the_session() -> None:
    port = free_port()
    command = [sys.executable, str(WORKSHOP)]
    with running(command, port) as url:
        endpoint = Endpoint(url, keepalive=600)
        session = open_one(endpoint)
    with running(command, port):
        answer = call_one(endpoint, session, "say", text="a")
    assert isinstance(answer, EnvironmentFailure)
    assert answer.kind == "unreachable"
    assert "the server was restarted" in str(answer)


# ── closing ────────────────────────────────────────────────────────


def test_closing_right_before_the_end_still_reaches_the_server(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    sessions = [open_one(endpoint) for _ in range(16)]
    for session in sessions:
        loop.close_session(endpoint, session)
    loop.close_all()
    assert record(workshop)["open"] == 0
    assert record(workshop)["ran"]["teardown"] == 16


@pytest.mark.slow
def test_a_session_is_closed_while_the_main_thread_holds_the_interpreter(workshop: str) -> None:
    endpoint = Endpoint(workshop, keepalive=600)
    loop.close_session(endpoint, open_one(endpoint))
    for _ in range(3):
        hold_the_gil(3)
    until(lambda: record(workshop)["open"] == 0)


def test_sessions_that_are_being_opened_at_the_end_are_closed(workshop: str) -> None:
    openings = [loop.open_session(Endpoint(workshop), "endless", 0) for _ in range(8)]
    until(lambda: record(workshop)["open"] == 8)
    loop.close_all()
    assert record(workshop)["open"] == 0
    assert all(opening.done() for opening in openings)


def test_closing_where_nothing_is_open_connects_to_nothing(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    session = open_one(endpoint)
    loop.close_all()
    requests = len(record(workshop)["requests"])
    loop.close_session(endpoint, session)
    assert loop._current is None
    assert len(record(workshop)["requests"]) == requests


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>",
        b"HTTP/1.1 307 Go\r\nLocation: /delete\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_nonsense_from_the_server_at_the_end_leaves_nothing_unclosed(answer: bytes) -> None:
    async def delete(request: Request, reply: Reply) -> None:
        await reply.raw(answer)

    with scripted(Protocol(delete=delete)) as server:
        endpoint = Endpoint(server.url)
        for _ in range(3):
            open_one(endpoint)
        connector = loop._running().made()[0].wire._client.connector
        assert connector is not None
        loop.close_all()
        assert connector.closed


def test_a_new_start_after_the_end_works(workshop: str) -> None:
    endpoint = Endpoint(workshop)
    for _ in range(2):
        assert open_one(endpoint).prompt == "Make alpha."
        loop.close_all()


def test_what_a_server_says_is_json_to_the_letter() -> None:
    protocol = Protocol()
    protocol.output = {"blocks": [{"type": "text", "text": json.loads('"\\ud83d\\ude00 \\u2028"')}]}
    with scripted(protocol) as server:
        endpoint = Endpoint(server.url)
        assert call_one(endpoint, open_one(endpoint), "add", n=1).text == "😀 \u2028"
