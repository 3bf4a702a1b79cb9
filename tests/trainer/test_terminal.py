"""`ors-train train` as a program: on a terminal, and when it is told to stop twice."""

from __future__ import annotations

import os
import pty
import signal
import time
from pathlib import Path

import pytest

from tests.servers import serve_script
from tests.trainer.commands import GYM, SMALL, happened, record, started
from tests.trainer.conftest import until

pytestmark = pytest.mark.slow


def test_a_terminal_shows_a_bar(tiny_model: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with serve_script(GYM) as url:
        ours, theirs = pty.openpty()
        words = ("train", "--url", url, "--env_name", "gym", "--model_name_or_path", tiny_model, "--output_dir", run)
        env = {"TERM": "xterm-256color", "COLUMNS": "100"}
        process = started([*words, *SMALL], env, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        os.close(ours)
        assert process.wait(60) == 0, shown.decode()
        process.communicate()
    text = shown.decode()
    assert "training" in text and "3/3" in text and "reward none  scored 0%" in text and "━" in text
    assert "step 1/3" not in text  # that is for logs
    assert text.rstrip().endswith(f"finished: 3 steps; all of it is in {run}")


def test_the_second_ctrl_c_stops_at_once(tiny_model: Path, tmp_path: Path) -> None:
    run, diary = tmp_path / "run", tmp_path / "diary.jsonl"
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        words = ("train", "--url", url, "--env_name", "gym", "--model_name_or_path", tiny_model, "--output_dir", run)
        # A step that would take very long: every rollout may say a great deal.
        process = started([*words, *SMALL[:2], "--max_completion_length", 60_000, "--max_steps", 3])
        assert process.stderr is not None
        try:
            until(lambda: happened(diary, "setup") >= 1 + 4, 120)  # one to learn the tools, then the batch
            process.send_signal(signal.SIGINT)
            line = ""
            while "finishing this step" not in line:
                line = process.stderr.readline()
                assert line, "it ended at the first signal"
            second = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert time.monotonic() - second < 60
        assert "Traceback" not in err
        assert (record(run)["status"], record(run)["message"]) == ("interrupted", "stopped at once by SIGINT")
        until(lambda: happened(diary, "setup") == happened(diary, "teardown"))
