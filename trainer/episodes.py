"""What is kept of a batch's episodes: metrics for TRL's log, and one line a rollout in `rollouts.jsonl`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from trainer.ors.errors import FAILURE_KINDS, MODEL_ERRORS
from trainer.ors.rollout import Call, Rollout, Task

Ending = Literal["finished", "stopped", "length", "tool_limit", "environment_error", "open_failed", "interrupted"]
Message = Mapping[str, Any]

MAX_DEPTH = 10  # of what is kept of a line that is too long; a call's arguments begin at 6
MAX_LINE_CHARACTERS = 200_000  # of one rollout on disk; a run of a week must not fill it with one endless tool result


@dataclass(frozen=True)
class Episode:
    """One rollout as it ended.

    Args:
        environment: Its adapter.
        prompt: The messages the model was given.
        completion: The messages that followed: the model's, and the tools'.
        calls: Every call the model made, those that never reached the adapter too.
        reward: What the trainer learned from it: the sum of its reward functions, None where none scored it.
        ending: Why it ended; `interrupted` where the trainer crashed or was stopped before it did.
    """

    environment: Rollout
    prompt: Sequence[Message]
    completion: Sequence[Message]
    calls: Sequence[Call]
    reward: float | None
    ending: Ending


@dataclass(frozen=True)
class Score:
    """What an episode came to: its reward, None where it was not scored, and whether the environment failed."""

    task: Task | None
    reward: float | None
    failed: bool


def ending(rollout: Rollout, completion: Sequence[Message], cut: bool, turns_limit: int) -> Ending:
    """Why an episode ended. `cut` says that the model's last tokens are no end of a message."""
    if rollout.failure is not None:
        sent = any(call.error in FAILURE_KINDS and call.seconds for call in rollout.calls)
        return "environment_error" if sent else "open_failed"
    if rollout.finished:
        return "finished"
    if completion and completion[-1].get("tool_calls"):
        turns = sum(1 for message in completion if message.get("tool_calls"))
        return "tool_limit" if turns > turns_limit else "length"
    return "length" if cut else "stopped"


def metrics(episodes: Sequence[Episode], *, by_environment: bool) -> dict[str, list[float]]:
    """What a batch logs, over all episodes as `env/…` and, where asked for, by environment as `env/<name>/…`.

    Every name has a value for each episode, zeros too, so that means over several batches and processes are right:
    whether it was `scored` and `finished`, its `turns`, `model_errors` and `environment_errors` and each of their
    kinds. `env/<name>/reward` has those that were scored; `open_seconds` and `call_seconds` are the batch's quantiles.
    """
    logged = _group_metrics("env", episodes)
    played = {episode.environment.task.environment for episode in episodes if episode.environment.task}
    for name in sorted(played) if by_environment else ():
        of_it = [e for e in episodes if e.environment.task and e.environment.task.environment == name]
        logged |= _group_metrics(f"env/{name}", of_it)
        rewards = [e.reward for e in of_it if e.reward is not None]
        if rewards:
            logged[f"env/{name}/reward"] = rewards
    return logged


def _group_metrics(prefix: str, episodes: Sequence[Episode]) -> dict[str, list[float]]:
    rows = [_counts(episode) for episode in episodes]
    calls = [call.seconds for episode in episodes for call in episode.calls if call.seconds]
    logged = {name: [row[name] for row in rows] for name in rows[0]}
    logged |= _quantiles("open_seconds", [episode.environment.open_seconds for episode in episodes])
    logged |= _quantiles("call_seconds", calls)
    return {f"{prefix}/{name}": values for name, values in logged.items()}


def _counts(episode: Episode) -> dict[str, float]:
    errors: dict[str, float] = dict.fromkeys((*MODEL_ERRORS, *FAILURE_KINDS), 0.0)
    for call in episode.calls:
        if call.error in MODEL_ERRORS:
            errors[call.error] += 1
    if episode.environment.failure is not None:
        errors[episode.environment.failure.kind] += 1
    return {
        "scored": float(episode.reward is not None),
        "finished": float(episode.environment.finished),
        "turns": float(sum(message.get("role") == "assistant" for message in episode.completion)),
        "model_errors": sum(errors[kind] for kind in MODEL_ERRORS),
        "environment_errors": sum(errors[kind] for kind in FAILURE_KINDS),
        **errors,
    }


def _quantiles(name: str, values: Iterable[float]) -> dict[str, list[float]]:
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"{name}_p{q}": [ordered[min(len(ordered) - 1, math.ceil(len(ordered) * q / 100) - 1)]] for q in (50, 95)}


class RolloutLog:
    """`rollouts.jsonl`: one line a rollout, appended and handed to the system as soon as its reward is known.

    Several processes may append to the same file: each line is one write.

    Args:
        path: The file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, episodes: Sequence[Episode], **facts: Any) -> None:
        """Append the episodes, `facts` (step, mode, phase) in every line."""
        lines = b"".join(self._line(episode, facts) for episode in episodes)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            view = memoryview(lines)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)

    def _line(self, episode: Episode, facts: Mapping[str, Any]) -> bytes:
        rollout = episode.environment
        task = rollout.task
        line = {
            **facts,
            "environment": task.environment if task else None,
            "split": task.split if task else None,
            "task_index": task.index if task else None,
            "prompt": list(episode.prompt),
            "completion": list(episode.completion),
            "calls": [vars(call) for call in episode.calls],
            "reward": episode.reward,
            "finished": rollout.finished,
            "ending": episode.ending,
            "error": str(rollout.failure) if rollout.failure is not None else None,
            "seconds": {"open": rollout.open_seconds, "calls": sum(call.seconds for call in episode.calls)},
        }
        longest = MAX_LINE_CHARACTERS
        text = _json(line)
        while text is None or len(text) > MAX_LINE_CHARACTERS:
            longest //= 4
            if longest < 50:
                text = _json({**line, "prompt": [], "completion": [], "calls": [], "cut": True}) or "{}"
                break
            text = _json(_shorten(line, longest))
        return text.encode() + b"\n"


def _json(value: Any) -> str | None:
    """The value as strict JSON, None where it is nested too deeply for that."""
    try:
        try:
            return json.dumps(value, default=str, allow_nan=False)
        except ValueError:  # a NaN that the model wrote, say
            return json.dumps(_finite(value), default=str)
    except RecursionError:
        return None


def _finite(value: Any) -> Any:
    """The same value with numbers that JSON does not have as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _shorten(value: Any, longest: int, depth: int = 0) -> Any:
    """The same value with what is long, has many parts or lies deep cut, each cut said."""
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}… [{len(value) - longest} characters cut]"
    if depth == MAX_DEPTH and isinstance(value, Mapping | list):
        return "… [cut here]"
    keep = max(longest // 50, 16)
    if isinstance(value, Mapping):
        kept = {
            _shorten(str(key), longest): _shorten(item, longest, depth + 1) for key, item in islice(value.items(), keep)
        }
        return kept if len(value) <= keep else {**kept, "…": f"[{len(value) - keep} keys cut]"}
    if isinstance(value, list):
        parts = [_shorten(item, longest, depth + 1) for item in value[:keep]]
        return parts if len(value) <= keep else [*parts, f"… [{len(value) - keep} items cut]"]
    return value
