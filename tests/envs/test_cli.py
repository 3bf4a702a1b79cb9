"""`ors-env` as a person meets it: what it prints, on which stream, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import forked
from tests.envs.conftest import Checkout
from tests.servers import ROOT, free_port, serve, serve_script, stop, variables


def ors_env(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    words = ["-m", "envs.cli", *arguments]
    return forked.run(words, env={**os.environ, **env, "PYTHONPATH": str(cwd)}, cwd=cwd)


def test_list_tells_splits_sizes_tools_and_what_it_is() -> None:
    done = ors_env("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "echo\n  Say the word in the prompt" in done.stdout
    assert "splits  train 128, test 64\n  tools   echo\n" in done.stdout


def test_list_as_json() -> None:
    done = ors_env("list", "--json")
    echo = next(entry for entry in json.loads(done.stdout)["environments"] if entry["name"] == "echo")
    assert echo["splits"] == [{"name": "train", "num_tasks": 128}, {"name": "test", "num_tasks": 64}]
    assert echo["tools"] == ["echo"]


TERMINAL = """
from openreward.environments import Environment, ToolOutput, terminal, tool
from pydantic import BaseModel

class Message(BaseModel):
    text: str

class Spoken(Environment):
    @classmethod
    def name(cls): return "spoken"
    @classmethod
    def list_splits(cls): return ["train"]
    @classmethod
    def list_tasks(cls, split): return [{}]
    def get_prompt(self): return []
    @terminal
    @tool
    def answer(self, message: Message) -> ToolOutput: pass
"""


def test_list_shows_a_tool_that_takes_the_final_message(tmp_path: Path) -> None:
    (tmp_path / "spoken").mkdir()
    (tmp_path / "spoken" / "environment.py").write_text(TERMINAL)
    done = ors_env("list", ORS_ENVS_PATH=str(tmp_path))
    assert "spoken\n  splits  train 1\n  tools   answer (takes the final message)\n" in done.stdout


def test_list_shows_the_good_environments_beside_a_broken_one(checkout: Checkout) -> None:
    checkout.add("broken", "1 / 0\n")
    done = ors_env("list", cwd=checkout.path)
    assert done.returncode == 1
    assert "echo\n" in done.stdout
    told = "envs/broken/environment.py:1: ZeroDivisionError: division by zero"
    assert done.stderr == f"ors-env: broken cannot be loaded: {told}\n"


LISTS = """from openreward.environments import Environment, tool

class Bad(Environment):
    @classmethod
    def name(cls): return {name!r}
    @classmethod
    def list_splits(cls): {splits}
    def get_prompt(self): return []
    {tool}
"""
SPLITS = {
    "no_file": ("open('/nowhere/tasks.json')", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/ta"),
    "no_key": ("return {}['splits']", "KeyError: 'splits'"),
    "leaving": ("raise SystemExit(4)", "the environment called exit(4)"),
    "numbers": ("return [5]", ""),
}


@pytest.fixture(scope="module")
def failing() -> Iterator[Path]:
    """Environments that can be loaded and whose own code fails when it is asked, one of them only has no tool."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (splits, _) in {**SPLITS, "no_tool": ("return ['train']", "")}.items():
            home = Path(folder) / name
            home.mkdir()
            tool = "" if name == "no_tool" else "@tool\n    def done(self): pass"
            (home / "environment.py").write_text(LISTS.format(name=name, splits=splits, tool=tool))
        yield Path(folder)


@pytest.mark.parametrize("name", SPLITS)
def test_what_an_environments_own_code_raises_is_laid_at_its_door(failing: Path, name: str) -> None:
    done = ors_env("serve", "echo", name, "--port", "0", ORS_ENVS_PATH=str(failing))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    line = f"{failing}/{name}/environment.py" + (":7: " if name != "numbers" else ": ")
    assert done.stderr.startswith(f"ors-env: {line}{SPLITS[name][1]}")


def test_an_environment_that_cannot_be_served_is_not_announced(failing: Path) -> None:
    done = ors_env("serve", "no_tool", "--port", "0", ORS_ENVS_PATH=str(failing))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("ors-env: Environment 'no_tool' has no tools defined.")


def test_one_that_fails_does_not_hide_the_others(failing: Path) -> None:
    done = ors_env("list", ORS_ENVS_PATH=str(failing))
    assert (done.returncode, done.stderr.count("\n")) == (1, len({*SPLITS, "no_tool"})), done.stderr
    assert "echo\n  Say the word" in done.stdout
    assert f"no_key cannot be loaded: {failing}/no_key/environment.py:7: KeyError: 'splits'\n" in done.stderr


def test_what_nobody_foresaw_is_one_line_too(checkout: Checkout) -> None:
    (checkout.path / "envs" / "reloading.py").write_text("1 / 0\n")
    done = ors_env("serve", "echo", "--reload", cwd=checkout.path)
    told = "ors-env: ZeroDivisionError: division by zero (reloading.py:1; --debug shows the traceback)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
    assert "Traceback" in ors_env("serve", "echo", "--reload", "--debug", cwd=checkout.path).stderr


@pytest.mark.parametrize("verb", [[], ["list"], ["serve"], ["new"], ["check"], ["push"]])
def test_help_explains_with_an_example(verb: list[str]) -> None:
    done = ors_env(*verb, "--help")
    assert done.returncode == 0
    assert not verb or f"example: ors-env {verb[0]}" in done.stdout


@pytest.mark.parametrize(
    ("verb", "purpose"),
    [("serve", "Serve environments over HTTP."), ("push", "Serve an environment as a Hugging Face Space.")],
)
def test_help_writes_names_as_they_are_written(verb: str, purpose: str) -> None:
    assert purpose in ors_env(verb, "--help").stdout


def test_the_program_starts_without_the_sdk() -> None:
    code = "import sys, envs.cli; print(sorted({'openreward', 'uvicorn', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"


def test_serving_an_unknown_environment_lists_those_that_exist() -> None:
    done = ors_env("serve", "ehco")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ors-env: no environment 'ehco'; there are: ") and "echo" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_traceback_only_with_debug() -> None:
    assert "Traceback" in ors_env("serve", "ehco", "--debug").stderr


def test_a_taken_port_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = ors_env("serve", "echo", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ors-env: cannot listen on 127.0.0.1:{port}: address already in use\n"


@pytest.mark.parametrize(
    ("arguments", "env", "status", "told"),
    [
        (["--host", "no.such.host.invalid"], {}, 1, "cannot listen on no.such.host.invalid:"),
        ([], {"PORT": "http"}, 1, "PORT: 'http' is not a port"),
        (["echo"], {}, 1, "named twice: echo"),
    ],
)
def test_bad_serve_options_are_one_line(arguments: list[str], env: dict[str, str], status: int, told: str) -> None:
    done = ors_env("serve", "echo", *arguments, **env)
    assert done.returncode == status
    assert (told in done.stderr, done.stderr.count("\n")) == (True, 1), done.stderr


@pytest.mark.parametrize(
    ("words", "verb", "told"),
    [
        ([], "", "the following arguments are required: VERB"),
        (["sreve"], "", "argument VERB: invalid choice: 'sreve'"),
        (["serve"], " serve", "the following arguments are required: NAME"),
        (["serve", "echo", "--port", "70000"], " serve", "argument --port: '70000' is not a port (0 to 65535)"),
        (["serve", "echo", "--prot", "3"], "", "unrecognized arguments: --prot 3"),
        (["push", "echo", "--space", "echo"], " push", "argument --space: 'echo' is not OWNER/NAME"),
    ],
)
def test_a_wrong_command_line_takes_one_line_and_status_2(words: list[str], verb: str, told: str) -> None:
    done = ors_env(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"ors-env{verb}: {told}")
    assert done.stderr.endswith(f"; ors-env{verb} --help says more\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_takes_its_port_from_the_environment_says_where_it_is_and_stops_with_status_0(number: int) -> None:
    port = free_port()
    command = [sys.executable, "-m", "envs.cli", "serve", "echo"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=variables(port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        await_health(f"http://127.0.0.1:{port}")
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert lines == [
        f"echo at http://127.0.0.1:{port} (in a browser: a page to try it by hand; Ctrl-C stops)\n",
        "  from trainer import OpenRewardSpec\n",
        f'  spec = OpenRewardSpec("http://127.0.0.1:{port}", env_name="echo", split="train")\n',
    ]
    assert (rest, errors) == ("", "")


def test_a_server_for_others_says_that_its_address_is_seen_from_inside() -> None:
    command = [sys.executable, "-m", "envs.cli", "serve", "echo", "--host", "0.0.0.0", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, env=variables(0), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.terminate()
    assert "echo at http://127.0.0.1:" in lines[0]
    assert (
        lines[3]
        == "  # from elsewhere with the host and the port that lead here, for a container those it is published at\n"
    )


def await_health(url: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the server does not answer")


def test_serve_answers_for_the_named_environments() -> None:
    with serve("echo", "sql") as url:
        assert httpx.get(f"{url}/list_environments", trust_env=False).json() == ["echo", "sql"]


def test_a_server_that_cannot_start_shows_its_last_words() -> None:
    with pytest.raises(RuntimeError, match="ended with status 1:\nors-env: no environment 'ehco'"), serve("ehco"):
        raise AssertionError("it must not start")


def test_a_script_serves_on_the_port_it_is_given(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import os\nfrom envs.echo.environment import EchoEnvironment\nfrom openreward.environments import Server\n"
        "Server([EchoEnvironment]).run(host='127.0.0.1', port=int(os.environ['PORT']))\n"
    )
    with serve_script(script) as url:
        assert httpx.get(f"{url}/list_environments", trust_env=False).json() == ["echo"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health", trust_env=False)


def test_stop_returns_the_exit_status() -> None:
    assert stop(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])) == -signal.SIGTERM
