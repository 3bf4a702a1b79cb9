"""The measurements run and write what they promise, and the figures that no machine's speed changes hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import dataset
from benchmarks.process import started
from benchmarks.rollouts import Cell, ideal_seconds
from tests.servers import ROOT


@pytest.fixture(scope="module")
def counted() -> Iterator[str]:
    with started("benchmarks.dataset", "--serve") as server:
        yield server.url


@pytest.mark.parametrize(
    ("choice", "most"),
    [
        ({"num_tasks": 64}, 6),
        ({"num_tasks": 1024}, 12),
        ({"indices": list(range(64))}, 6),
        ({"indices": list(range(1023, -1, -1))}, 12),
    ],
    ids=["64", "1024", "64 by index", "1024 by index"],
)
def test_a_dataset_takes_few_requests(counted: str, choice: dict[str, Any], most: int) -> None:
    before = dataset.requests_so_far(counted)
    rows = dataset.new_spec("ours", counted, choice).train_dataset
    assert dataset.requests_so_far(counted) - before <= most
    expected = choice.get("indices", list(range(choice.get("num_tasks", 0))))
    assert rows["task_index"][:] == expected
    assert rows["number"][:] == expected


def test_one_call_in_twenty_of_a_heavy_tailed_cell_takes_ten_times_as_long() -> None:
    waits = sorted(wait for turns in Cell(32, 50, heavy_tailed=True).seconds(0) for wait in turns)
    assert waits == [0.05] * 92 + [0.5] * 4
    assert ideal_seconds([[0.1, 0.2], [0.3, 0.1]]) == pytest.approx(0.5)


def run(module: str, target: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments, "--json", str(target)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(target.read_text())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rollouts_measurement_writes_its_rows(tmp_path: Path) -> None:
    rows = run("rollouts", tmp_path / "rows.json", "--quick", "--rounds", "1")
    assert [(row["rollouts"], row["turns"], row["latency_ms"]) for row in rows] == [(8, 3, 50), (32, 3, 50)]
    for row in rows:
        # Three calls one after the other, at the least; TRL's one rollout after the other.
        assert row["ideal_s"] == pytest.approx(0.15) and row["ours_s"] >= 0.15 and row["floor_s"] >= 0.15
        assert row["trl_s"] >= row["rollouts"] * 0.15
        assert row["ratio"] == pytest.approx(row["trl_s"] / row["ours_s"])
        assert row["floor_ratio"] == pytest.approx(row["ours_s"] / row["floor_s"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_open_sessions_are_small_and_none_is_left(tmp_path: Path) -> None:
    figures = run("sessions", tmp_path / "figures.json")
    assert figures["sessions"] == 512
    assert figures["kib_per_session"] < 200
    assert figures["left_open"] == 0
