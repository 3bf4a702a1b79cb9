"""A forked program is what the same words after `python` are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.servers import variables

TELLS = """
import atexit, json, os, sys
atexit.register(print, "ended", flush=True)
print(json.dumps([__name__, sys.argv, os.getcwd(), sys.path[:2], sorted(os.environ.items())]))
sys.exit(3)
"""
SECONDS = 60.0


def ended(words: list[str], folder: Path, **env: str) -> tuple[int, str]:
    log = folder / "log"
    log.write_text("")
    status = Forked(words, env=variables(0, env), log=log, cwd=folder).wait(SECONDS)
    return status, log.read_text()


@pytest.mark.parametrize("words", [["told.py", "a", "b"], ["-m", "told", "c"]])
def test_it_sees_and_ends_as_a_program_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("HERS", "kept from it")
    (tmp_path / "told.py").write_text(TELLS)
    env = {name: value for name, value in variables(0, {"MINE": "given"}).items() if name != "HERS"}
    whole = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
    log = tmp_path / "log"
    forked = Forked(words, env=env, log=log, cwd=tmp_path)
    assert (forked.wait(SECONDS), forked.poll()) == (whole.returncode, whole.returncode) == (3, 3)
    assert log.read_text() == whole.stdout


def test_an_error_is_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    status, log = ended(["broken.py"], tmp_path)
    assert status == 1
    assert log.endswith("ZeroDivisionError: division by zero\n") and 'broken.py", line 1' in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_nothing_else(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "waits.py").write_text("import time; time.sleep(600)\n")
    one, other = (Forked(["waits.py"], env=variables(0), log=tmp_path / "log", cwd=tmp_path) for _ in range(2))
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    one.send_signal(number)
    assert one.wait(SECONDS) == -number
    assert other.poll() is None
    other.kill()
    assert other.wait(SECONDS) == -signal.SIGKILL
    other.kill()  # long gone, and its process id perhaps another's


def test_two_programs_share_no_module_of_this_project(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("import envs.catalog\nenvs.catalog.mark = 1\n")
    (tmp_path / "second.py").write_text("import envs.catalog\nprint(hasattr(envs.catalog, 'mark'))\n")
    assert ended(["first.py"], tmp_path) == (0, "")
    assert ended(["second.py"], tmp_path) == (0, "False\n")
