"""Training in processes of its own: two that train together, and one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers import ROOT, free_port, serve_script, variables
from tests.trainer.playing import SERVER, Play, rollouts_of

PROGRAM = Path(__file__).with_name("run_play.py")
PATIENCE = 400.0


# `accelerate launch --cpu` starts one process whatever it is told; torch's own launcher sets the same variables.
def two_processes(folder: Path, *urls: str) -> subprocess.CompletedProcess[str]:
    port = free_port()
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(port)]
    command = [sys.executable, *launch, str(PROGRAM), str(folder), "2", *urls]
    env = {**variables(port), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_train_together_and_write_each_rollout_once(tmp_path: Path) -> None:
    with serve_script(SERVER) as url, closing(Play(url)) as play:
        ended = two_processes(tmp_path, url)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert play.record()["sessions_open"] == 0
        begun = [call for call in play.record()["calls"] if call.endswith("begins")]
    lines = rollouts_of(tmp_path)
    assert Counter(line["step"] for line in lines) == {1: 8, 2: 8}
    # A step is a group of four on each process; tasks are not repeated within an epoch.
    assert Counter(line["task_index"] for line in lines).most_common()[-1][1] == 4
    assert len(begun) == 16
    assert {line["reward"] for line in lines} == {0.0, 1.0, 2.0, 3.0}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_dead_environment_of_one_process_neither_raises_nor_blocks_the_other(tmp_path: Path) -> None:
    with serve_script(SERVER) as one, serve_script(SERVER) as dying:
        ended = two_processes(tmp_path, one, dying)
    assert ended.returncode == 0, ended.stderr[-3000:]
    lines = rollouts_of(tmp_path)
    assert Counter((line["step"], line["ending"]) for line in lines) == {
        (step, ending): 4 for step in (1, 2) for ending in ("finished", "open_failed")
    }
    assert [(tmp_path / f"steps-{rank}").read_text().split() for rank in (0, 1)] == [["1", "2"]] * 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_run_leaves_the_rollouts_of_all_steps_that_were_finished(tmp_path: Path) -> None:
    steps = tmp_path / "steps-0"
    with serve_script(SERVER) as url:
        command = [sys.executable, str(PROGRAM), str(tmp_path), "10000", url]
        process = subprocess.Popen(command, cwd=ROOT, env=variables(0), stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (steps.exists() and len(steps.read_text().split()) >= 3) and time.monotonic() < deadline:
                assert process.poll() is None
                time.sleep(0.02)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    finished = [int(step) for step in steps.read_text().split()]
    assert len(finished) >= 3
    written = Counter(line["step"] for line in rollouts_of(tmp_path))
    assert all(written[step] == 4 for step in finished)
