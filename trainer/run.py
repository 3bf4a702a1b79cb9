"""A run's folder: what is kept of a run while it goes on, so that a crash loses nothing that was finished."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from trainer.ors.errors import ConfigurationError
from trainer.report_text import without_userinfo
from trainer.run_card import card

PACKAGES = ("ors-stack", "torch", "trl", "transformers", "datasets", "openreward", "vllm")
NAMED = 3  # of the things that a refusal names


class RunFolder:
    """`runs/<name>/`: run.json (what and how far), metrics.jsonl, rollouts.jsonl, eval.json, config.yaml.

    Only the main process of a distributed run writes. Whole files are replaced, lines are appended, never rewritten
    but when a run is taken up again from an earlier step.

    Args:
        path: The folder; made where it does not exist, and taken away by `abandon`.
        writes: Whether this process writes.

    Raises:
        ConfigurationError: the folder cannot be written.
    """

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path = path
        self._writes = writes
        self._facts: dict[str, Any] = {}
        self._start = time.monotonic()
        self._made: list[Path] = []
        try:
            self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
            probe = path / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            self.abandon()
            raise ConfigurationError(f"the run folder {path} cannot be written: {error.strerror}") from None

    def abandon(self) -> None:
        """Take away what this made, where the run never began."""
        for folder in self._made:
            with suppress(OSError):  # somebody has put something there
                folder.rmdir()

    @property
    def begun(self) -> bool:
        """Whether the run was begun by this process."""
        return bool(self._facts)

    @property
    def rollouts(self) -> Path:
        """Where rollouts are appended, by every process."""
        return self.path / "rollouts.jsonl"

    def holds_a_run(self) -> bool:
        """Whether there is a run that a new one would mix with: its run.json, or a checkpoint as TRL leaves one."""
        return (self.path / "run.json").exists() or self.last_checkpoint() is not None

    def check_alone(self) -> None:
        """Raise ConfigurationError where other things than a run are here: a run replaces files without asking."""
        if (found := strangers(self.path)) and not self.holds_a_run():
            listed = ", ".join(found[:NAMED]) + (", …" if len(found) > NAMED else "")
            raise ConfigurationError(
                f"{self.path} holds other things than a run ({listed}): choose another --output_dir"
            )

    def last_checkpoint(self) -> Path | None:
        """The complete checkpoint of the latest step."""
        found = [p for p in self.path.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", p.name)]
        return max((p for p in found if checkpoint_step(p) is not None), key=lambda p: int(p.name[11:]), default=None)

    def recorded(self) -> dict[str, Any]:
        """What run.json says."""
        return self._read("run.json")

    def begin(self, **facts: Any) -> None:
        """Say what is run, in run.json. `facts` beside the usual: model, seed, steps, environments, resumed_from.

        The time that a resumed run took before is counted on.
        """
        if self._writes:
            for told in self.path.glob("error*.txt"):
                told.unlink()
        versions = {name: _version(name) for name in PACKAGES}
        spent = self.recorded().get("seconds") or {} if facts.get("resumed_from") is not None else {}
        self._start -= spent.get("total", 0.0)
        self._facts = {
            "command": _command(),
            "started": _now(),
            "finished": None,
            "status": "running",
            "message": "",
            "versions": {name: version for name, version in versions.items() if version},
            "step": 0,
            "resumed_from": None,
            "seconds": {"total": 0.0, "training": spent.get("training", 0.0)},
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
                file.write(json.dumps({key: _finite(value) for key, value in logs.items()}) + "\n")

    def evaluation(self, moment: str, result: Mapping[str, Any]) -> None:
        """Keep an evaluation, `before` or `after`."""
        self._replace("eval.json", {**self.evaluations(), moment: result})

    def card(self) -> None:
        """Say in README.md what the run is and what is here."""
        self._write("README.md", card(self.path, self._facts, self.evaluations()))

    def evaluations(self) -> dict[str, Any]:
        """The evaluations that were kept."""
        return self._read("eval.json")

    def go_back_to(self, step: int) -> None:
        """Take what came after a step out of metrics and rollouts, since it will happen again, and keep it aside.

        With it goes an evaluation after training, and one before it that was not brought to its end.
        """
        if not self._writes:
            return
        evaluations = self.evaluations()
        if evaluations.pop("after", None) is not None:
            self._replace("eval.json", evaluations)
        evaluated = {"before": -math.inf if "before" in evaluations else math.inf, "after": math.inf}
        for name in ("metrics.jsonl", "rollouts.jsonl"):
            path = self.path / name
            if not path.exists():
                continue
            aside = path.with_suffix(".before-resume.jsonl")
            kept = path.with_name(f".{name}.kept")
            with path.open("rb") as lines, kept.open("wb") as stay, aside.open("ab") as leave:
                for line in lines:  # the last may lack its end, and the next one written would be glued to it
                    (stay if _moment(line, evaluated) <= step else leave).write(line.removesuffix(b"\n") + b"\n")
            kept.replace(path)
            if not aside.stat().st_size:
                aside.unlink()

    def _read(self, name: str) -> dict[str, Any]:
        try:
            kept = json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _replace(self, name: str, value: Any) -> None:
        self._write(name, json.dumps(value, indent=1) + "\n")

    def _write(self, name: str, text: str) -> None:
        if self._writes:
            new = self.path / f".{name}.new"
            new.write_text(text)
            new.replace(self.path / name)


def rotate(path: Path) -> Path | None:
    """Move a folder that holds an earlier run out of the way, to the next free `<name>-<number>`.

    Raises:
        ConfigurationError: there is something, but no run, or it cannot be moved.
    """
    path = Path(os.path.abspath(path))
    try:
        if not path.exists() or not any(path.iterdir()):
            return None
        folder = RunFolder(path)
        folder.check_alone()
        if not folder.holds_a_run():
            return None
        number = 1
        while (other := path.with_name(f"{path.name}-{number}")).exists():
            number += 1
        path.rename(other)
    except OSError as error:
        raise ConfigurationError(f"the run folder {path} cannot be used: {error.strerror}") from None
    return other


def strangers(folder: Path) -> list[str]:
    """What is in a folder, but for what nobody put there to keep: hidden files, and a volume's own `lost+found`."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != "lost+found")


def checkpoint_step(path: Path) -> int | None:
    """The step that a checkpoint is of, None where the folder holds no whole one."""
    try:
        return int(json.loads((path / "trainer_state.json").read_text())["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe(environments: Sequence[Mapping[str, Any]]) -> str:
    """Environments in a few words, for a summary."""
    return ", ".join(f"{e['name']} ({e['split']}, {e['num_tasks']} tasks)" for e in environments)


def _moment(line: bytes, evaluated: Mapping[str, float]) -> float:
    """The step of a line, or what stands for one where it is of an evaluation. A line that a crash cut is of none."""
    try:
        row = json.loads(line)
        return evaluated.get(row.get("phase"), float(row["step"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return math.inf


def _command() -> str:
    """The command as it may be written down: without a password in a URL, and without a token."""
    words = ["ors-train" if Path(sys.argv[0]).name == "cli.py" else Path(sys.argv[0]).name, *sys.argv[1:]]
    return re.sub(r"(--hub[_-]token[= ])\S+", r"\1…", without_userinfo(shlex.join(words)))


def _finite(value: Any) -> Any:
    """JSON has no word for what is not a number: the mean of no rewards, say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def share(folder: Path) -> None:
    """Let whoever may read new files of this process read all in the folder: safetensors makes its own for the owner
    alone, and a model that a container's user saved is for the people on its host."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
