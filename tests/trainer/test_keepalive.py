"""Sessions are kept alive whatever the trainer does, and not for longer than the trainer lives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.servers import ROOT, serve_script, variables
from tests.trainer.conftest import WORKSHOP, record, until
from tests.trainer.one_session import call_one, hold_the_gil, open_one
from tests.trainer.scripted_server import Protocol, Reply, Request, ScriptedServer, scripted
from trainer.ors import keepalive, loop
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure
from trainer.ors.outcomes import Outcome
from trainer.ors.sessions import Session


def pings(server: ScriptedServer, session: Session) -> int:
    return sum(r.path == "/ping" and r.headers["x-session-id"] == session.sid for r in server.requests)


def pinger() -> subprocess.Popen[bytes]:
    process = loop._running().keepalive._process
    assert process is not None
    return process


@pytest.mark.slow
def test_a_session_is_kept_while_the_main_thread_holds_the_interpreter() -> None:
    with serve_script(WORKSHOP, {"REAP_SECONDS": "8"}) as url:
        kept, left = (Endpoint(url, keepalive=seconds) for seconds in (1.0, 600.0))
        sessions = [(endpoint, open_one(endpoint)) for endpoint in (kept, kept, left, left)]
        hold_the_gil(20)
        answers = [call_one(endpoint, session, "say", text="still here") for endpoint, session in sessions]
        assert [isinstance(answer, Outcome) for answer in answers] == [True, True, False, False]


@pytest.mark.slow
def test_a_session_in_a_long_call_and_one_in_a_long_setup_are_kept_too() -> None:
    with serve_script(WORKSHOP, {"REAP_SECONDS": "8"}) as url:
        endpoint = Endpoint(url, keepalive=0.5)
        session = open_one(endpoint)
        opening = loop.open_session(endpoint, "endless", 0)
        assert isinstance(call_one(endpoint, session, "wait", seconds=12), Outcome)
        assert record(url)["ran"].get("reaped", 0) == 0
        assert not opening.done()


def test_a_session_in_use_is_not_pinged(workshop: str) -> None:
    endpoint = Endpoint(workshop, keepalive=600)
    session = open_one(endpoint)
    call_one(endpoint, session, "say", text="a")
    pinged = [r for r in record(workshop)["requests"] if r["path"] == "/ping"]
    assert session.sid not in {r["headers"]["x-session-id"] for r in pinged}


def test_a_ping_that_hangs_does_not_keep_the_others_from_being_pinged() -> None:
    async def ping(request: Request, reply: Reply) -> None:
        if request.headers["x-session-id"] == sessions[0].sid:
            await asyncio.sleep(60)
        await reply.json({})

    sessions: list[Session] = []
    with scripted(Protocol(ping=ping)) as server:
        endpoint = Endpoint(server.url, keepalive=0.2)
        sessions += [open_one(endpoint) for _ in range(2)]
        until(lambda: pings(server, sessions[1]) >= 4)
        assert pings(server, sessions[0]) <= 1


def test_a_ping_carries_what_every_request_to_the_server_does_and_the_command_line_does_not() -> None:
    with scripted(Protocol()) as server:
        session = open_one(Endpoint(server.url, api_key="k-123", headers=(("X-Team", "t-456"),), keepalive=0.1))
        until(lambda: pings(server, session) >= 2)
        ping = next(r for r in server.requests if r.path == "/ping")
        assert (ping.headers["x-api-key"], ping.headers["x-team"]) == ("k-123", "t-456")
        words = " ".join(map(str, pinger().args))  # type: ignore[arg-type]
        assert "k-123" not in words and "t-456" not in words


def test_a_closed_session_is_pinged_no_more() -> None:
    with scripted(Protocol()) as server:
        endpoint = Endpoint(server.url, keepalive=0.1)
        closed, kept = open_one(endpoint), open_one(endpoint)
        until(lambda: pings(server, closed) >= 1)
        loop.close_session(endpoint, closed)
        until(lambda: server.count("/delete") == 1)
        before = pings(server, closed)
        until(lambda: pings(server, kept) >= 5)
        assert pings(server, closed) <= before + 1  # one may have been under way


def test_a_session_that_a_ping_does_not_find_is_gone() -> None:
    async def ping(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "Active environment not found"}, 404)

    with scripted(Protocol(ping=ping)) as server:
        endpoint = Endpoint(server.url, keepalive=0.1)
        session = open_one(endpoint)
        until(lambda: session.gone is not None)
        answer = call_one(endpoint, session, "add", n=1)
        assert isinstance(answer, EnvironmentFailure)
        assert "closed it as idle" in str(answer)
        assert (server.count("/shop/call"), pings(server, session)) == (0, 1)


def test_a_process_that_pings_and_stands_still_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "SHORT_LIFE", 0.0)
    protocol = Protocol()
    with scripted(protocol) as server:
        endpoint = Endpoint(server.url, open_timeout=60.0, keepalive=0.5, headers=(("X-Long", "x" * 8000),))
        first = open_one(endpoint)
        stopped = pinger()
        os.kill(stopped.pid, signal.SIGSTOP)
        openings = [loop.open_session(endpoint, "train", 0) for _ in range(100)]  # more than a socket holds unread
        last = [opening.result(60) for opening in openings][-1]
        before = pings(server, first)
        until(lambda: pings(server, first) > before and pings(server, last) > 0)
        assert pinger() is not stopped
        loop.close_all()
        assert sorted(protocol.deleted) == sorted(protocol.sessions)


def test_the_process_that_pings_is_replaced_where_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "SHORT_LIFE", 0.0)
    with scripted(Protocol()) as server:
        endpoint = Endpoint(server.url, keepalive=0.1)
        sessions = [open_one(endpoint) for _ in range(2)]
        until(lambda: pings(server, sessions[0]) >= 1)
        killed = pinger()
        killed.kill()
        until(lambda: pinger() is not killed)
        before = [pings(server, session) for session in sessions]
        until(lambda: all(pings(server, s) > n + 1 for s, n in zip(sessions, before, strict=True)))
        assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("python", "why"), [("/bin/false", "status 1"), ("/no/such/python", "No such file")])
def test_where_it_cannot_run_that_is_said_once_and_sessions_work(
    python: str, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with scripted(Protocol()) as server:
        endpoint = Endpoint(server.url, keepalive=0.1)
        first = open_one(endpoint)
        until(lambda: bool(caplog.messages))
        for session in (first, open_one(endpoint)):
            assert isinstance(call_one(endpoint, session, "add", n=1), Outcome)
            loop.close_session(endpoint, session)
        until(lambda: server.count("/delete") == 2)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("sessions that wait for long are not kept alive: ")
    assert why in caplog.messages[0]


def test_it_ends_with_the_trainer_even_where_that_is_killed() -> None:
    program = (
        "import sys, time\n"
        "from trainer.ors import loop\n"
        "from trainer.ors.endpoint import Endpoint\n"
        "loop.open_session(Endpoint(sys.argv[1]), 'train', 0).result()\n"
        "print(loop._running().keepalive._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with scripted(Protocol()) as server:
        words = [sys.executable, "-c", program, server.url]
        with subprocess.Popen(words, cwd=ROOT, env=variables(0), stdout=subprocess.PIPE, text=True) as trainer:
            assert trainer.stdout is not None
            pid = int(trainer.stdout.readline())
            assert alive(pid)
            trainer.kill()
        until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:  # an orphan is a zombie until whoever inherits it looks
        return stat.read().rpartition(")")[2].split()[0] != "Z"
