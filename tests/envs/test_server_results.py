"""What calls ended with is there for a client that comes back for it, and takes no more memory than it may."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Iterator

import httpx
import pytest
from starlette.requests import Request

from envs.server.results import Results
from tests.envs.trial import TrialServer, tool_call, trial_server
from tests.episode import events

KILOBYTE = "x" * 1000


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server() as running:
        yield running


def again(client: httpx.Client, task_id: str) -> dict[str, str]:
    return events(client.post("/trial/call", json={"name": "say", "input": {}, "task_id": task_id}).text)


def kept(server: TrialServer) -> float:
    return server.metric("ors_results_kept_bytes")


def test_a_call_that_names_megabytes_is_answered_briefly_and_keeps_little(server: TrialServer) -> None:
    client = server.open("wordy")
    for name, arguments, reason in [
        ("x" * 3_000_000, {}, "not_found"),
        ("say", {"text": ["x" * 3_000_000]}, "input_validation"),
    ]:
        told = json.loads(tool_call(client, name, **arguments)["end"])
        assert (told["ok"], told["reason"]) == (False, reason)
        assert told["error"].endswith(" characters more")
        assert len(told["error"]) < 5000
    crashed = tool_call(client, "crash", text="y" * 100_000)
    assert crashed["error"] == "y" * 100_000, "a tool's own words are whole"
    assert again(client, crashed["task_id"]) == crashed
    assert 100_000 < kept(server) < 120_000
    client.post("/delete").raise_for_status()
    assert kept(server) == 0


def test_a_session_has_its_latest_results_and_another_its_own(server: TrialServer) -> None:
    client, other = server.open("much"), server.open("little")
    small = tool_call(other, "say", text="z")
    ids = [tool_call(client, "say", text="x" * 2_000_000)["task_id"] for _ in range(10)]
    assert 14e6 < kept(server) < 17e6
    assert again(client, ids[0]) == {"error": "unknown task_id"}
    assert len(again(client, ids[-1])["end"]) > 1000
    assert again(other, small["task_id"]) == small
    client.post("/delete").raise_for_status()
    assert again(other, small["task_id"]) == small
    other.post("/delete").raise_for_status()
    assert kept(server) == 0


def test_a_call_that_outlasts_its_session_is_told_and_not_kept(server: TrialServer) -> None:
    client = server.open("short")
    with client.stream("POST", "/trial/call", json={"name": "wait", "input": {"seconds": 2}}) as stream:
        lines = stream.iter_lines()
        next(lines)
        server.client("short").post("/delete").raise_for_status()
        assert any("waited" in line for line in lines)
    assert kept(server) == 0


def request(sid: str) -> Request:
    return Request({"type": "http", "headers": [(b"x-session-id", sid.encode())]})


async def run(results: Results, sid: str, text: str = KILOBYTE) -> str:
    async def work() -> str:
        return text

    told = [event async for event in results.stream(work, request(sid))]
    assert told[-1]["event"] == "end"
    return str(told[0]["data"])


async def has(results: Results, task_id: str) -> bool:
    async def work() -> str:
        raise AssertionError("it is not run again")

    told = [event async for event in results.stream(work, request("any"), task_id)]
    return told[-1] != {"event": "error", "data": "unknown task_id"}


def test_all_results_together_have_a_limit_and_the_oldest_go_first() -> None:
    async def scenario() -> None:
        results = Results(lambda work: work, session_bytes=10**6, total_bytes=10_000)
        ids = [await run(results, f"s{number}") for number in range(20)]
        assert results.size <= 10_000
        there = [await has(results, task_id) for task_id in ids]
        assert there == sorted(there)
        assert 3 <= there.count(True) <= 6

    asyncio.run(scenario())


def test_the_latest_result_is_kept_however_long_it_is() -> None:
    async def scenario() -> None:
        results = Results(lambda work: work, session_bytes=5000, total_bytes=10_000)
        first = await run(results, "one")
        long = await run(results, "one", "x" * 100_000)
        assert [await has(results, task_id) for task_id in (first, long)] == [False, True]
        last = await run(results, "two")
        assert [await has(results, task_id) for task_id in (first, long, last)] == [False, False, True]
        results.forget("one")
        results.forget("two")
        assert results.size == 0

    asyncio.run(scenario())


def test_a_failure_keeps_its_text_and_nothing_of_what_its_code_held() -> None:
    async def scenario() -> None:
        class Body:
            pass

        held: list[weakref.ref[Body]] = []

        async def fails() -> str:
            body = Body()
            held.append(weakref.ref(body))
            raise ValueError(f"no {type(body).__name__}")

        async def gives_up() -> str:
            raise asyncio.CancelledError

        results = Results(lambda work: work)
        for work, text in ((fails, "no Body"), (gives_up, "the call was cancelled")):
            told = [event async for event in results.stream(work, request("one"))]
            assert told[-1] == {"event": "error", "data": text}
        gc.collect()
        assert [reference() for reference in held] == [None]

    asyncio.run(scenario())
