"""What both programs do where standard output cannot show a text, is closed or full, or has a reader that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT, variables

PROGRAMS = {"ors-env": "envs.cli", "ors-train": "trainer.cli"}
BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])  # an error comes as Python ends, or where it is printed
PROGRAM = pytest.mark.parametrize("program", PROGRAMS)
HELPS = {
    "ors-env": [["--help"], ["list", "--help"]],
    "ors-train": [["--help"], ["train", "--help"], ["inspect", "--help"]],
}
FULL = "No space left on device"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def call(program: str, *words: str, redirected: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    line = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", PROGRAMS[program], *words]
    return subprocess.run(line, cwd=ROOT, env={**variables(0), **env}, capture_output=True, text=True, timeout=60)


@BUFFERED
@PROGRAM
@pytest.mark.parametrize(
    ("redirected", "why"), [(">&-", "it is closed"), ("> /dev/full", FULL)], ids=["closed", "full"]
)
def test_what_cannot_be_written_takes_one_line(program: str, redirected: str, why: str, unbuffered: str) -> None:
    for words in HELPS[program]:
        done = call(program, *words, redirected=redirected, PYTHONUNBUFFERED=unbuffered)
        who = program if words[0] == "--help" or program == "ors-env" else f"{program} {words[0]}"
        assert (done.returncode, done.stderr) == (1, f"{who}: standard output cannot be written: {why}\n")


def test_a_verb_that_cannot_say_what_it_did_takes_one_line(tmp_path: Path) -> None:
    done = call("ors-env", "new", "mine", "--into", str(tmp_path), redirected="> /dev/full")
    assert (done.returncode, done.stderr) == (1, f"ors-env: standard output cannot be written: {FULL}\n")


@BUFFERED
@PROGRAM
def test_a_reader_that_has_had_enough_is_told_nothing(program: str, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    env = {**variables(0), "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", PROGRAMS[program], "--help"]
    with open(write, "wb") as closed:
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=closed, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"")


@PROGRAM
def test_a_terminal_of_ascii_is_shown_the_same_help(program: str) -> None:
    for words in HELPS[program]:
        shown = call(program, *words, **ASCII)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == call(program, *words, PYTHONIOENCODING="utf-8").stdout


@PROGRAM
def test_what_a_terminal_cannot_show_is_spelled(program: str) -> None:
    code = f"from {PROGRAMS[program].split('.')[0]} import output; output.prepare(); print('Say \\u6f22 \\ud800.')"
    for env, told in (
        ({"PYTHONIOENCODING": "ascii"}, "Say \\u6f22 \\ud800."),
        ({"PYTHONUTF8": "1"}, "Say 漢 \\ud800."),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**variables(0), **env}, capture_output=True, timeout=60
        )
        assert (done.stdout.decode(), done.stderr) == (f"{told}\n", b"")


def test_a_program_with_nothing_to_print_needs_no_output() -> None:
    done = call("ors-train", "trian", redirected=">&-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("ors-train: no verb 'trian'")
