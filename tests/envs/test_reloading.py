"""`ors-env serve --reload`: an edit is served without a restart by hand, a broken one is told and waited out."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest

from tests.envs.trial import until
from tests.servers import ROOT, variables

pytestmark = pytest.mark.slow

SECONDS = 60
CODE = '''
from openreward.environments import Environment, Split, TextBlock, ToolOutput, tool


class DraftEnvironment(Environment):
    @classmethod
    def name(cls):
        return "draft"

    @classmethod
    def list_splits(cls):
        return [Split(name="SPLIT", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{}]

    def get_prompt(self):
        return [TextBlock(text="Call it.")]

    @tool
    async def call(self) -> ToolOutput:
        """Win."""
        return ToolOutput(blocks=[TextBlock(text="won")], reward=1.0, finished=True)
'''


class Reloading:
    """A server that reloads, and the environment that it serves."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self.home = home
        self.process = process
        self._log = log

    def edit(self, code: str) -> None:
        (self.home / "environment.py").write_text(code)

    def log(self) -> str:
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def url(self) -> str:
        return self.log().split(" at ", 1)[1].split(" ", 1)[0]

    def serves(self, split: str) -> bool:
        try:
            answer = httpx.get(f"{self.url()}/draft/splits", trust_env=False)
        except (httpx.TransportError, IndexError):
            return False
        return bool(answer.json()[0]["name"] == split)

    def await_split(self, split: str) -> None:
        until(lambda: self.process.poll() is not None or self.serves(split), f"split {split}", seconds=SECONDS)
        assert self.process.poll() is None, self.log()

    def await_log(self, text: str, times: int = 1) -> None:
        until(lambda: self.log().count(text) >= times, f"{text!r} in the log", seconds=SECONDS)


@contextmanager
def reloading(folder: Path, code: str) -> Iterator[Reloading]:
    home = folder / "draft"
    home.mkdir()
    (home / "environment.py").write_text(code)
    command = [sys.executable, "-m", "envs.cli", "serve", "draft", "--reload", "--port", "0"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables(0, {"ORS_ENVS_PATH": str(folder)}),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Reloading(home, process, log)
        finally:
            process.terminate()
            process.wait()


def refuses(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", trust_env=False)
    except httpx.TransportError:
        return True
    return False


def test_an_edit_is_served_a_broken_one_told_and_a_mended_one_served_again(tmp_path: Path) -> None:
    with reloading(tmp_path, CODE.replace("SPLIT", "first")) as server:
        server.await_split("first")
        url = server.url()

        server.edit(CODE.replace("SPLIT", "second"))
        server.await_split("second")
        assert "draft/environment.py changed, starting again\n" in server.log()

        server.edit("def broken(:\n")
        server.await_log("it starts again when a file changes")
        error = f"ors-env: {server.home}/environment.py:1: SyntaxError: invalid syntax\n"
        assert error in server.log()
        assert "Traceback" not in server.log()
        assert refuses(url)

        (server.home / "words.txt").write_text("a file that the code may read\n")
        server.await_log(error, times=2)
        server.edit(CODE.replace("SPLIT", "third"))
        server.await_split("third")
        assert server.url() == url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_with_it(tmp_path: Path, number: int) -> None:
    with reloading(tmp_path, CODE) as server:
        server.await_split("SPLIT")
        url = server.url()
        server.process.send_signal(number)
        assert server.process.wait(SECONDS) == 0
        assert refuses(url)
        assert "Traceback" not in server.log()


def test_a_signal_ends_the_wait_for_a_mended_file(tmp_path: Path) -> None:
    with reloading(tmp_path, "1 / 0\n") as server:
        server.await_log("it starts again when a file changes")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS) == 0


def test_a_taken_port_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "envs.cli", "serve", "echo", "--reload", "--port", port]
        done = subprocess.run(command, cwd=ROOT, env=variables(0), capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ors-env: cannot listen on 127.0.0.1:{port}: address already in use\n"
