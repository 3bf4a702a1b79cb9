"""A run's folder: what is kept of a run while it goes on, so that a crash loses nothing that was finished."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from trainer.ors.errors import ConfigurationError

PACKAGES = ("ors-stack", "torch", "trl", "transformers", "datasets", "openreward", "vllm")
CONTENT = ("run.json", "metrics.jsonl", "rollouts.jsonl", "eval.json")


class RunFolder:
    """`runs/<name>/`: run.json (what and how far), metrics.jsonl, rollouts.jsonl, eval.json, config.yaml.

    Only the main process of a distributed run writes. Whole files are replaced, lines are appended, never rewritten
    but when a run is taken up again from an earlier step.

    Args:
        path: The folder; made where it does not exist.
        writes: Whether this process writes.

    Raises:
        ConfigurationError: the folder cannot be written.
    """

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path = path
        self._writes = writes
        self._facts: dict[str, Any] = {}
        self._start = time.monotonic()
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigurationError(f"the run folder {path} cannot be written: {error.strerror}") from None

    @property
    def rollouts(self) -> Path:
        """Where rollouts are appended, by every process."""
        return self.path / "rollouts.jsonl"

    def holds_a_run(self) -> bool:
        """Whether something is there that a new run would mix with."""
        return any((self.path / name).exists() for name in CONTENT) or self.last_checkpoint() is not None

    def last_checkpoint(self) -> Path | None:
        """The complete checkpoint of the latest step."""
        found = [p for p in self.path.glob("checkpoint-*") if (p / "trainer_state.json").is_file()]
        return max(found, key=lambda p: int(p.name.rpartition("-")[2]), default=None)

    def begin(self, **facts: Any) -> None:
        """Say what is run, in run.json. `facts` beside the usual: model, seed, steps, environments, resumed_from."""
        versions = {name: _version(name) for name in PACKAGES}
        self._facts = {
            "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "started": _now(),
            "finished": None,
            "status": "running",
            "message": "",
            "versions": {name: version for name, version in versions.items() if version},
            "step": 0,
            "resumed_from": None,
            "seconds": {"total": 0.0, "training": 0.0},
            **facts,
        }
        self.update()

    def update(self, **facts: Any) -> None:
        """Replace facts in run.json."""
        self._facts |= facts
        self._facts["seconds"]["total"] = time.monotonic() - self._start
        self._replace("run.json", self._facts)

    def trained(self, seconds: float) -> None:
        """Count seconds of training."""
        self._facts["seconds"]["training"] += seconds

    def end(self, status: str, message: str = "") -> None:
        """Say how the run ended: finished, interrupted or failed."""
        self.update(status=status, message=message, finished=_now())

    def metrics(self, logs: Mapping[str, Any]) -> None:
        """Append one step's metrics."""
        if self._writes:
            with (self.path / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(logs) + "\n")

    def evaluation(self, moment: str, result: Mapping[str, Any]) -> None:
        """Keep an evaluation, `before` or `after`."""
        self._replace("eval.json", {**self.evaluations(), moment: result})

    def evaluations(self) -> dict[str, Any]:
        """The evaluations that were kept."""
        try:
            kept = json.loads((self.path / "eval.json").read_text())
            return kept if isinstance(kept, dict) else {}
        except (OSError, ValueError):
            return {}

    def go_back_to(self, step: int) -> None:
        """Take what came after a step out of metrics and rollouts, since it will happen again, and keep it aside."""
        if not self._writes:
            return
        for name in ("metrics.jsonl", "rollouts.jsonl"):
            path = self.path / name
            if not path.exists():
                continue
            aside = path.with_suffix(".before-resume.jsonl")
            kept = path.with_name(f".{name}.kept")
            with path.open("rb") as lines, kept.open("wb") as stay, aside.open("ab") as leave:
                for line in lines:
                    (stay if _step(line) <= step else leave).write(line)
            kept.replace(path)

    def _replace(self, name: str, value: Any) -> None:
        if self._writes:
            new = self.path / f".{name}.new"
            new.write_text(json.dumps(value, indent=1) + "\n")
            new.replace(self.path / name)


def rotate(path: Path) -> Path | None:
    """Move a folder that holds an earlier run out of the way, to the next free `<name>-<number>`."""
    if not path.exists() or not any(path.iterdir()):
        return None
    number = 1
    while (other := path.with_name(f"{path.name}-{number}")).exists():
        number += 1
    path.rename(other)
    return other


def describe(environments: Sequence[Mapping[str, Any]]) -> str:
    """Environments in a few words, for a summary."""
    return ", ".join(f"{e['name']} ({e['split']}, {e['num_tasks']} tasks)" for e in environments)


def _step(line: bytes) -> float:
    """The step of a line; a line that a crash cut is of no step that is kept."""
    try:
        row = json.loads(line)
        return float(row["step"]) if row.get("mode") != "eval" else 0.0
    except (ValueError, KeyError, TypeError, AttributeError):
        return float("inf")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
