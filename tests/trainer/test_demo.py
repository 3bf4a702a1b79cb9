"""The demo in a short form, as a program: it learns, leaves a whole folder, and can be stopped."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.servers import ROOT
from tests.trainer.commands import record, rows, started
from tests.trainer.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_demo_learns_goes_on_as_it_says_and_leaves_everything(starter_cache: Path, tmp_path: Path) -> None:
    run = tmp_path / "demo"
    words = ("demo", "--steps", 12, "--eval_rollouts", 1, "--output_dir", run)
    # Variables that would send a careless demo elsewhere.
    env = {
        "ORS_CACHE": str(starter_cache),
        "OPENREWARD_SESSION_URL": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
    }
    process = started(words, env)
    until(lambda: process.poll() is not None or bool(rows(run / "metrics.jsonl")), 300)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    hint = re.search(r"stopped by a signal after step (\d+); (.+) goes on", err)
    assert hint is not None, err
    process = started((*words, *hint[2].split()), env)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert out == ""
    assert f"going on from step {hint[1]} ({run / 'checkpoint-'}{hint[1]})" in err
    names = {path.name for path in run.iterdir()}
    assert names >= {"run.json", "metrics.jsonl", "rollouts.jsonl", "eval.json", "config.yaml", "model", "report.html"}
    told = record(run)
    assert (told["status"], told["step"], told["steps"], told["seed"]) == ("finished", 12, 12, 0)
    reward = [row["reward"] for row in rows(run / "metrics.jsonl")]
    assert sum(reward[-4:]) > sum(reward[:4])
    scores = json.loads((run / "eval.json").read_text())
    assert scores["after"]["sampled"]["success"] > scores["before"]["sampled"]["success"] + 0.3
    assert scores["after"]["tasks"] == 64
    assert "after training, test: success" in err
    assert f"report: {run / 'report.html'}" in err

    assert len(list(starter_cache.glob("starter-*"))) == 1, "the tests' lesson is what the demo finds out"

    process = started(("demo", "--steps", 1, "--output_dir", run), env)
    assert process.stderr is not None
    lines = [process.stderr.readline(), process.stderr.readline()]
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert lines[1] == f"the earlier run is now in {run}-1\n"
    assert record(Path(f"{run}-1"))["step"] == 12


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_that_is_stopped_takes_its_server_with_it(tmp_path: Path, number: signal.Signals, status: int) -> None:
    process = started(("demo", "--output_dir", tmp_path / "demo"), {"ORS_CACHE": str(tmp_path / "cache")})
    assert process.stderr is not None
    served = re.search(r"served at (http://\S+)", process.stderr.readline())
    assert served is not None
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == status
    assert "Traceback" not in err
    until(lambda: not answers(served[1]))
    assert not (tmp_path / "demo" / "run.json").exists()


def test_a_demo_that_is_killed_takes_its_server_with_it() -> None:
    code = (
        "import time; from trainer.demo import echo_server\n"
        "with echo_server() as url: print(url, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        url = said.readline().strip()
        assert answers(url)
        process.kill()
        process.wait()
    until(lambda: not answers(url))


def answers(url: str) -> bool:
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health", timeout=5).close()
    except (urllib.error.URLError, OSError):
        return False
    return True
