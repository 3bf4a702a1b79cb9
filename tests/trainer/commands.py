"""`ors-train` as tests call it: in this process where only words matter, as a program where signals and streams do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.servers import ROOT
from trainer.cli import main

GYM = Path(__file__).parent / "gym.py"
SMALL = (
    "--per_device_train_batch_size=4",
    "--num_generations=2",
    "--max_completion_length=6",
    "--max_steps=3",
    "--wait=5",
)
"""A run that takes a second or two with the tiny model."""


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    status: int
    out: str
    err: str


def one_line(said: Said) -> str:
    """The line that a command which could not do its work left, and nothing else."""
    assert said.status != 0
    assert said.out == ""
    assert said.err.endswith("\n") and said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err.strip()


Command = Callable[..., Said]


def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`ors-train` in this process."""

    def call(*words: object) -> Said:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return Said(status, *capsys.readouterr())

    return call


def started(words: Sequence[object], env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
    """`ors-train` as a program, its streams in pipes."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    variables = {**kept, "PYTHONPATH": str(ROOT), **(env or {})}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    line = [sys.executable, "-m", "trainer.cli", *map(str, words)]
    return subprocess.Popen(line, env=variables, text=True, **streams)


def save_tiny_model(path: Path) -> Path:
    """A folder with a model that says nothing of sense, and a tokenizer whose template calls tools."""
    from benchmarks.scripted import model, tokenizer

    model().save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@contextmanager
def told(logger: str) -> Iterator[list[str]]:
    """What a library's logger is told: its handlers may keep the standard error of when it was imported."""
    said: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler = Keeps()
    logging.getLogger(logger).addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger(logger).removeHandler(handler)


def rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines, none where it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def record(run: Path) -> dict[str, Any]:
    """A run folder's run.json."""
    told: dict[str, Any] = json.loads((run / "run.json").read_text())
    return told


def happened(diary: Path, event: str) -> int:
    """How often something happened on the gym's server."""
    return sum(row["event"] == event for row in rows(diary))


def written(path: Path, **keys: Any) -> Path:
    path.write_text(yaml.safe_dump(keys))
    return path


def steps(run: Path) -> list[int]:
    return [row["step"] for row in rows(run / "metrics.jsonl")]


def trained(run: Path) -> list[int]:
    """The step of each rollout of training."""
    return [row["step"] for row in rows(run / "rollouts.jsonl") if row["mode"] == "train"]
