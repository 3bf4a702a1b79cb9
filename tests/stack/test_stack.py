"""The wrapper itself: it fails in time, says why, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from tests.servers import ROOT
from tests.stack.conftest import VARIABLES
from tests.stack.probe import left, until
from tests.stack.stack import LOG_LINES, Stack, StackError

pytestmark = pytest.mark.usefixtures("engine")

SERVICE = """
services:
  web:
    image: ${BASE_IMAGE:-python:3.11-slim}
    init: true
    command: ["python", "-uc", "for i in range(80): print('line', i)\\nimport time; time.sleep(600)"]
    healthcheck: {test: [CMD, python, -c, "%s"], interval: 1s, retries: 2, start_period: %s}
    volumes: ["kept:/kept"]
    networks: [own]
networks: {own: }
volumes: {kept: }
"""
HEALTHY = SERVICE % ("pass", "60s")


def stack(folder: Path, text: str, seconds: float = 60) -> Stack:
    (folder / "compose.yaml").write_text(text)
    return Stack(folder, seconds=seconds)


def test_the_block_ends_with_nothing_left(tmp_path: Path, engine: docker.DockerClient) -> None:
    with stack(tmp_path, HEALTHY) as up:
        assert len(left(engine, up.project)) == 3
    assert left(engine, up.project) == []


def test_two_stacks_of_one_file_never_meet(tmp_path: Path, engine: docker.DockerClient) -> None:
    with stack(tmp_path, HEALTHY) as one:
        with stack(tmp_path, HEALTHY) as other:
            assert one.get_container("web").ID != other.get_container("web").ID
        assert one.get_container("web").State == "running"


@pytest.mark.parametrize(
    ("health", "start_period"),
    [("raise SystemExit(1)", "0s"), ("raise SystemExit(1)", "600s")],
    ids=["unhealthy", "starting for ever"],
)
def test_a_service_that_never_gets_healthy_fails_in_time_with_its_last_words(
    tmp_path: Path, engine: docker.DockerClient, health: str, start_period: str
) -> None:
    before = time.monotonic()
    up = stack(tmp_path, SERVICE % (health, start_period), seconds=10)
    with pytest.raises(StackError) as told, up:
        pytest.fail("the block must not start")
    assert time.monotonic() - before < 10 + 60
    lines = [line for line in str(told.value).splitlines() if " line " in line]
    assert len(lines) == LOG_LINES and lines[-1].endswith("line 79")
    assert left(engine, up.project) == []


class Hasty(Stack):
    """Its `docker compose up --wait` says at once that all is well, as the real one may when its limit comes."""

    def compose(self, *arguments: str, seconds: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
        arguments = ("up", "--detach") if arguments[0] == "up" else arguments
        return super().compose(*arguments, seconds=seconds, check=check)


def test_compose_is_not_believed_that_a_service_is_healthy(tmp_path: Path, engine: docker.DockerClient) -> None:
    (tmp_path / "compose.yaml").write_text(SERVICE % ("raise SystemExit(1)", "600s"))
    up = Hasty(tmp_path, seconds=5)
    with pytest.raises(StackError, match=r"^not healthy in 5 s: web\n"), up:
        pytest.fail("the block must not start")
    assert left(engine, up.project) == []


def test_a_failing_test_is_told_what_the_services_said(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as told, stack(tmp_path, HEALTHY):
        1 / 0  # noqa: B018
    assert "line 79" in told.value.__notes__[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_test_leaves_nothing(
    tmp_path: Path, engine: docker.DockerClient, number: signal.Signals
) -> None:
    (tmp_path / "compose.yaml").write_text(HEALTHY)
    (tmp_path / "test_waits.py").write_text(
        "import time\n"
        "from tests.stack.conftest import ends_in_order\n"
        "from tests.stack.stack import Stack\n"
        "def test_waits():\n"
        f"    with Stack({str(tmp_path)!r}, project='interrupted-{os.getpid()}'):\n"
        f"        open({str(tmp_path / 'up')!r}, 'w').close()\n"
        "        time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            str(ROOT / "pyproject.toml"),
            str(tmp_path),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    try:
        until((tmp_path / "up").exists, "the stack up")
        assert len(left(engine, f"interrupted-{os.getpid()}")) == 3
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert left(engine, f"interrupted-{os.getpid()}") == []


def test_a_port_that_is_taken_is_named(environments: Stack) -> None:
    taken = environments.url("echo").rsplit(":", 1)[1]
    with (
        pytest.raises(StackError, match=f"{taken}.*(already|in use)"),
        Stack(ROOT, services=["echo"], variables={**VARIABLES, "ECHO_PORT": taken}),
    ):
        pytest.fail("the block must not start")


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_the_compose_file_is_valid_in_both_profiles(profile: str) -> None:
    Stack(ROOT, variables={"COMPOSE_PROFILES": profile}).compose("config", "--quiet")
