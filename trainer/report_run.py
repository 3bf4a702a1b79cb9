"""Reads a run folder as it is: complete, cut off by a crash, or hardly begun.

A file that is missing or unreadable is a note on the page, never an error; a line that is not JSON is skipped and
counted. `rollouts.jsonl` is read once from end to end, line by line; what stays in memory grows with the number of
steps, not with the number of rollouts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.report_sample import Mark, Sampler

FILES = ("run.json", "metrics.jsonl", "rollouts.jsonl", "eval.json")
SAMPLES = 10

MODEL_ERRORS = {
    "unknown_tool": "unknown tool",
    "bad_arguments": "bad arguments",
    "malformed_call": "call that cannot be parsed",
    "after_end": "call after the end",
}
ENVIRONMENT_ERRORS = {
    "crash": "crash in a tool",
    "timeout": "timeout",
    "unreachable": "unreachable",
    "refused": "request refused",
    "open_failed": "session did not open",
}
UNNAMED_ERROR = "other"
_KEPT_METRICS = ("env/", "env_wait", "time/", "frac_reward_zero_std")


@dataclass
class Tally:
    """What the training rollouts of one environment in one step came to."""

    rollouts: int = 0
    scored: int = 0
    reward: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)


@dataclass
class Run:
    """Everything the page is made from.

    Args:
        facts: run.json, or {} without one.
        evaluation: eval.json, or {} without one.
        metrics: step -> the numbers logged there that the page uses, in the order of steps.
        tallies: (step, environment) -> tally of the training rollouts, in the order they came.
        early, late: sampled rollouts.
        sampled_from: "training" or "evaluation": where the samples were taken.
        notes: what was missing or unreadable, a sentence each.
    """

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict)
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    tallies: dict[tuple[int, str], Tally] = field(default_factory=dict)
    early: list[dict[str, Any]] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)
    sampled_from: str = "training"
    notes: list[str] = field(default_factory=list)

    def environments(self) -> list[str]:
        """Names of the environments: run.json's, then those seen in rollouts alone."""
        named = [str(row["name"]) for row in records(self.facts.get("environments")) if row.get("name")]
        return list(dict.fromkeys([*named, *(environment for _, environment in self.tallies)]))


def number(value: object) -> float | None:
    """Returns a finite number as a float; None for anything else, NaN and booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def records(value: object) -> list[dict[str, Any]]:
    """Returns the objects in a JSON array; [] for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def record(value: object) -> dict[str, Any]:
    """Returns a JSON object; {} for anything else."""
    return value if isinstance(value, dict) else {}


def read_run(folder: Path) -> Run:
    """Reads what there is in a run folder. Raises OSError where a file is there and may not be read."""
    run = Run(folder)
    run.facts = _read_object(run, "run.json")
    run.evaluation = _read_object(run, "eval.json", optional=True)
    _read_metrics(run)
    _read_rollouts(run)
    return run


def read_metrics(folder: Path) -> dict[int, dict[str, float]]:
    """Reads what was logged of the training steps alone. Raises OSError where the file may not be read."""
    run = Run(folder)
    _read_metrics(run)
    return run.metrics


def _read_object(run: Run, name: str, *, optional: bool = False) -> dict[str, Any]:
    path = run.folder / name
    if not path.is_file():
        if not optional:
            run.notes.append(f"{name} is missing.")
        return {}
    content = _parse(path.read_bytes())
    if content is None:
        run.notes.append(f"{name} could not be read as a JSON object.")
    return content or {}


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _lines(run: Run, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the byte offset and the object of every readable line."""
    path = run.folder / name
    if not path.is_file():
        run.notes.append(f"{name} is missing.")
        return
    unreadable = offset = 0
    with path.open("rb") as lines:
        for line in lines:
            content = _parse(line)
            if content is not None:
                yield offset, content
            elif line.strip():
                unreadable += 1
            offset += len(line)
    if unreadable:
        run.notes.append(f"{name}: {unreadable} unreadable {'line' if unreadable == 1 else 'lines'} skipped.")


def _read_metrics(run: Run) -> None:
    steps: dict[int, dict[str, float]] = {}
    for _, row in _lines(run, "metrics.jsonl"):
        step = number(row.get("step"))
        if step is None:
            continue
        kept = {
            key: value
            for key, raw in row.items()
            if (key == "reward" or key.startswith(_KEPT_METRICS)) and (value := number(raw)) is not None
        }
        if kept:  # a resumed run logs some steps again: the later line counts
            steps.setdefault(int(step), {}).update(kept)
    run.metrics = dict(sorted(steps.items()))


def _read_rollouts(run: Run) -> None:
    training, evaluation = Sampler(), Sampler()
    for offset, row in _lines(run, "rollouts.jsonl"):
        step = int(number(row.get("step")) or 0)
        environment = str(row.get("environment") or "")
        reward = number(row.get("reward"))
        group = (step, environment, str(row.get("split")), str(row.get("task_index")))
        mark = Mark(offset, step, environment, group, reward)
        if row.get("mode") == "eval":
            evaluation.add(mark)
            continue
        training.add(mark)
        tally = run.tallies.setdefault((step, environment), Tally())
        tally.rollouts += 1
        tally.errors.update(_errors(row))
        if reward is not None:
            tally.scored += 1
            tally.reward += reward
    if not training.total:
        run.sampled_from = "evaluation"
    early, late = (training if training.total else evaluation).choose(SAMPLES)
    run.early, run.late = (_read_marked(run, marks) for marks in (early, late))


def _errors(row: dict[str, Any]) -> Iterator[str]:
    """The model's errors, and the environment's one failure: calls that come after it meet the same one again."""
    kinds = [str(kind) for call in records(row.get("calls")) if (kind := call.get("error"))]
    yield from (kind for kind in kinds if kind in MODEL_ERRORS)
    failures = ["open_failed"] if row.get("ending") == "open_failed" else []
    failures += [kind for kind in kinds if kind not in MODEL_ERRORS]
    yield from (kind if kind in ENVIRONMENT_ERRORS else UNNAMED_ERROR for kind in failures[:1])


def _read_marked(run: Run, marks: list[Mark]) -> list[dict[str, Any]]:
    if not marks:
        return []
    rows = []
    with (run.folder / "rollouts.jsonl").open("rb") as lines:
        for mark in marks:
            lines.seek(mark.offset)
            rows.append(record(_parse(lines.readline())))
    return rows
