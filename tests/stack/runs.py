"""Short real runs of the trainer's service: configurations, and what their run folders say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.servers import ROOT
from tests.stack.stack import Stack

SHORT: dict[str, Any] = {
    "model_name_or_path": "starter",
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 48,
    "max_tool_calling_iterations": 1,
    "save_steps": 2,
    "environments": [{"url": "${ECHO_URL}", "env_name": "echo", "unfinished_reward": 0.0}],
}
BOTH: dict[str, Any] = {
    "environments": [
        {"url": "${ECHO_URL}", "env_name": "echo", "weight": 1},
        {"url": "${SQL_URL}", "env_name": "sql", "weight": 1},
    ],
    "mixture_size": 4,
    "per_device_train_batch_size": 4,
    "num_generations": 2,
    "max_steps": 2,
}
"""Two prompts a step, and an epoch of two steps that has two tasks of each environment."""
TRAINING_SECONDS = 900


@contextmanager
def training(home: Path, variables: Mapping[str, str], **keys: Any) -> Iterator[Stack]:
    """A stack, not yet up, whose trainer does a short run with these keys and leaves it under `home/runs`."""
    (home / "stack").mkdir(parents=True, exist_ok=True)
    (home / "stack" / "cpu.yaml").write_text(yaml.safe_dump({**SHORT, **keys}))
    own = {"STACK_CONFIG": str(home / "stack"), "RUNS": str(home / "runs")}
    if os.getuid() != 0:  # so that whoever runs the tests can remove what the trainer wrote
        own["TRAINER_USER"] = f"{os.getuid()}:{os.getgid()}"
    stack = Stack(ROOT, variables={**variables, **own})
    try:
        yield stack
    except BaseException as error:
        error.add_note(stack.story())
        raise
    finally:
        stack.stop()


def train(stack: Stack) -> tuple[int, str]:
    """Do `docker compose up --exit-code-from trainer`; return its exit status and what was printed."""
    up = ["up", "--no-color", "--exit-code-from", "trainer"]
    done = stack.compose(*up, seconds=TRAINING_SECONDS, check=False)
    return done.returncode, done.stdout


def facts(home: Path) -> dict[str, Any]:
    """Return what run.json says of the run."""
    read: dict[str, Any] = json.loads((home / "runs" / "stack" / "run.json").read_text())
    return read


def lines(home: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of one of the run folder's journals, without one that is being written."""
    path = home / "runs" / "stack" / name
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
