"""However a program ends, its sessions are closed, nothing is said on stderr that it did not say, and its status stays.

The server is asked, not the client.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.servers import ROOT, serve_script, variables
from tests.trainer.conftest import WORKSHOP, record, until
from tests.trainer.leaving import SESSIONS

pytestmark = pytest.mark.slow

PLAIN, DEV = (), ("-X", "dev")


def leave(url: str, how: str, options: Sequence[str] = PLAIN, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *options, "-m", "tests.trainer.leaving", url, how],
        cwd=ROOT,
        env=variables(0, environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and what was said on stderr, but for asyncio's own notes on a slow machine in its debug mode."""
    _, errors = process.communicate(timeout=120)
    said = [line for line in errors.splitlines(keepends=True) if not line.startswith("Executing <")]
    return process.returncode, "".join(said)


def await_word(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != word:
        raise AssertionError(process.communicate(timeout=60)[1])


def closed(url: str, sessions: int = SESSIONS) -> bool:
    told = record(url)
    opened_for_tools = 1
    return told["open"] == 0 and told["ran"]["teardown"] == told["ran"]["setup"] == sessions + opened_for_tools


@pytest.mark.parametrize("how", ["return", "closing"])
def test_a_program_without_uvloop_leaves_no_session(workshop: str, how: str) -> None:
    assert end(leave(workshop, how, WITHOUT_UVLOOP="1")) == (0, "")
    assert closed(workshop)


@pytest.mark.parametrize("options", [PLAIN, DEV], ids=["plain", "dev"])
@pytest.mark.parametrize(("how", "status"), [("return", 0), ("exit", 3), ("closing", 0)])
def test_a_program_that_ends_leaves_no_session(workshop: str, how: str, status: int, options: Sequence[str]) -> None:
    assert end(leave(workshop, how, options)) == (status, "")
    assert closed(workshop)


def test_an_exception_leaves_no_session_and_only_its_own_traceback(workshop: str) -> None:
    status, errors = end(leave(workshop, "error"))
    assert status == 1
    assert errors.startswith("Traceback")
    assert errors.count("Traceback") == 1
    assert errors.endswith("LookupError: on purpose\n")
    assert closed(workshop)


@pytest.mark.parametrize(
    ("how", "number", "status", "said"),
    [
        ("signal", signal.SIGTERM, -signal.SIGTERM, ""),
        ("signal", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt\n"),
        ("own handler", signal.SIGTERM, 7, ""),
    ],
)
def test_a_signal_leaves_no_session(workshop: str, how: str, number: int, status: int, said: str) -> None:
    process = leave(workshop, how)
    await_word(process, "open")
    process.send_signal(number)
    ended, errors = end(process)
    assert ended == status
    assert errors.splitlines(keepends=True)[-1:] == ([said] if said else [])
    assert "Unclosed" not in errors
    assert closed(workshop)


def test_a_signal_in_the_middle_of_opening_leaves_no_session(workshop: str) -> None:
    process = leave(workshop, "opening")
    await_word(process, "open")
    until(lambda: record(workshop)["now"].get("setups") == SESSIONS)
    process.send_signal(signal.SIGTERM)
    assert end(process) == (-signal.SIGTERM, "")
    assert closed(workshop, 2 * SESSIONS)


def test_a_spawned_worker_leaves_no_session(workshop: str) -> None:
    process = leave(workshop, "spawn")
    await_word(process, "ended")
    assert closed(workshop)
    process.kill()
    assert end(process)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("options", [PLAIN, DEV], ids=["plain", "dev"])
def test_a_program_whose_server_is_gone_ends_in_silence(options: Sequence[str]) -> None:
    with serve_script(WORKSHOP) as url:
        process = leave(url, "server gone", options)
        await_word(process, "open")
    assert process.stdin is not None
    process.stdin.write("\n")
    assert end(process) == (0, "")


@pytest.mark.slow
def test_connections_that_the_server_closed_as_idle_do_not_keep_sessions_from_being_closed() -> None:
    with serve_script(WORKSHOP, {"KEEPALIVE_SECONDS": "1"}) as url:
        assert end(leave(url, "idle", KEEPALIVE="600")) == (0, "")
        assert closed(url)


@pytest.mark.parametrize(
    ("options", "environment"),
    [(PLAIN, {}), (DEV, {}), (PLAIN, {"WITHOUT_UVLOOP": "1"})],
    ids=["plain", "dev", "without uvloop"],
)
def test_a_forked_child_does_not_close_its_parents_sessions(
    workshop: str, options: Sequence[str], environment: dict[str, str]
) -> None:
    status, errors = end(leave(workshop, "fork", options, **environment))
    assert (status, errors) == (5, "")
    assert closed(workshop, SESSIONS + 2)
