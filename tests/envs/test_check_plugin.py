"""`pytest --ors-url`: the rules as tests of any project, which may have no other tests at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.check.rules import RULES
from tests.servers import serve, serve_script, variables

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with serve("echo") as url:
        yield url


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    with serve_script(HERE / "broken_server.py") as url:
        yield url


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "envs.check.pytest_plugin", "-p", "no:cacheprovider", "-rs"]
    # Loaded by its name alone, whether or not the installed package announces it too.
    env = variables(0, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return subprocess.run([*command, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=170)


def test_every_rule_is_a_test(tmp_path: Path, echo: str) -> None:
    done = run_pytest(tmp_path, "--ors-url", echo, "-v")
    assert done.returncode == 0, done.stdout
    assert all(rule.id in done.stdout for rule in RULES)
    assert "no key was given (--api-key)" in done.stdout
    assert "ors::ORS-001 PASSED" in done.stdout


def test_one_rule_can_be_chosen_and_says_what_was_broken(tmp_path: Path, broken: str) -> None:
    done = run_pytest(tmp_path, "--ors-url", f"{broken}/ORS-011", "-k", "ORS-011 or ORS-012")
    assert done.returncode == 1
    assert "ORS-011 (must): num_tasks counts what tasks lists" in done.stdout
    assert 'sent POST /conformance/num_tasks {"split": "train"}, got /tasks lists 5 tasks' in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_check_that_cannot_be_made_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--ors-url", "http://127.0.0.1:abc", "-k", "ORS-001 or ORS-012")
    assert (done.returncode, "2 failed" in done.stdout) == (1, True)
    assert done.stdout.count("\n'http://127.0.0.1:abc' is no URL; give one such as http://127.0.0.1:8000\n") == 2
    assert "Traceback" not in done.stdout and "runner.py" not in done.stdout


def test_a_broken_should_fails_no_run(tmp_path: Path, broken: str) -> None:
    done = run_pytest(tmp_path, "--ors-url", f"{broken}/ORS-026", "-k", "ORS-026")
    assert (done.returncode, "1 xfailed" in done.stdout) == (0, True), done.stdout


def test_the_fixture_gives_the_url_and_skips_without(tmp_path: Path, echo: str) -> None:
    code = "import urllib.request\n\ndef test_mine(ors_url):\n    assert ors_url.startswith('http')\n"
    (tmp_path / "test_mine.py").write_text(code)
    assert "1 passed" in run_pytest(tmp_path, "--ors-url", echo, "-k", "test_mine").stdout
    without = run_pytest(tmp_path)
    assert (without.returncode, "no --ors-url given" in without.stdout) == (0, True), without.stdout
