"""Headers of a check: a server behind a gate is checked like any other, and what opens the gate is never shown."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.check.headers import HeaderError, parse
from tests.servers import ROOT, serve_script, variables

HERE = Path(__file__).parent
TOKEN = "hf_gateTokenOfATest"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        yield other


@pytest.fixture(scope="module")
def gated(elsewhere: socket.socket) -> Iterator[str]:
    env = {"GATE_TOKEN": TOKEN, "GATE_ELSEWHERE": f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"}
    with serve_script(HERE / "gated_server.py", env) as url:
        yield url


def check(url: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envs.cli", "check", url, *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables(0, env), capture_output=True, text=True, timeout=170)


@pytest.mark.parametrize(
    "arguments",
    [["--hf-token", TOKEN], ["--header", f"Authorization: Bearer {TOKEN}", "--header", "X-Team: blue"]],
    ids=["token", "header"],
)
def test_a_server_behind_a_gate_passes(gated: str, arguments: list[str]) -> None:
    done = check(gated, *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    report = json.loads(done.stdout)
    assert report["environments"] == ["spoken"]
    assert not [result["rule"] for result in report["results"] if result["status"] == "failed"]
    assert TOKEN not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "env"),
    [([], {}), ([], {"HF_TOKEN": TOKEN}), (["--hf-token", "hf_another"], {})],
    ids=["none", "only a variable", "a wrong one"],
)
def test_without_the_token_the_gate_is_named(gated: str, arguments: list[str], env: dict[str, str]) -> None:
    done = check(gated, *arguments, **env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    told = "asks for a key: give --api-key, or --hf-token for a private Space (401: Invalid username or password.)\n"
    assert done.stderr.endswith(told)
    assert "hf_another" not in done.stderr


def test_the_token_follows_no_redirect(gated: str, elsewhere: socket.socket) -> None:
    done = check(f"{gated}/elsewhere", "--hf-token", TOKEN)
    assert done.returncode == 1
    assert TOKEN not in done.stdout + done.stderr
    with pytest.raises(BlockingIOError):
        elsewhere.accept()


def test_what_a_server_repeats_of_a_header_is_not_shown() -> None:
    with serve_script(HERE / "broken_server.py") as url:
        arguments = ["--hf-token", TOKEN, "--header", "X-Gate: tangerine", "--env", "spoken", "--json"]
        done = check(f"{url}/tells-the-key", *arguments)
    health = next(result for result in json.loads(done.stdout)["results"] if result["rule"] == "ORS-001")
    assert '"authorization": "***"' in health["got"]
    assert '"x-gate": "***"' in health["got"]
    assert TOKEN not in done.stdout
    assert "tangerine" not in done.stdout


def test_a_header_is_a_name_and_a_value() -> None:
    assert parse(["X-Team:  blue team "], f" {TOKEN}\n") == {"x-team": "blue team", "authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("lines", "token", "told"),
    [
        (["secretvalue"], None, "header 1 is not 'Name: value'"),
        (["X-Team: blue", "X-Gate:"], None, "header 2 is not"),
        (["X-Team: secretvalue\r\nX-Gate: b"], None, "header 1 is not"),
        (["X-Team: secretvalué"], None, "header 1 is not"),
        (["X-Team: a", "x-team: secretvalue"], None, "the header x-team is given twice"),
        (["Authorization: Basic secretvalue"], TOKEN, "the header Authorization is given twice"),
        (["X-API-Key: secretvalue"], None, "the check sets the header X-API-Key itself: give --api-key"),
        (["X-Session-ID: secretvalue"], None, "the check sets the header X-Session-ID itself: leave it out"),
        ([], "", "the token is empty"),
        ([], "secret value", "the token is empty, or holds what no token holds"),
    ],
)
def test_what_cannot_be_sent_is_refused_without_its_value(lines: list[str], token: str | None, told: str) -> None:
    with pytest.raises(HeaderError) as refused:
        parse(lines, token)
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_password_in_the_url_beside_a_token_is_refused() -> None:
    done = check("http://user:secretvalue@127.0.0.1:9", "--hf-token", TOKEN)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "the URL holds a password and a header is Authorization: only one can be sent" in done.stderr
    assert "secretvalue" not in done.stderr


def test_a_bad_header_is_one_line() -> None:
    done = check("http://127.0.0.1:9", "--header", "nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ors-env: header 1 is not 'Name: value' in plain characters\n"
