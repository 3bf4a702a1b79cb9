"""How well a model does on a split: success rates with intervals, sampled and greedy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from trainer.episodes import Score

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.grpo import EnvGRPOTrainer

Z = 1.959964  # of the 95 % interval


class Rate(TypedDict):
    """A success rate in one way of decoding.

    `success` of the `judged` rollouts with its 95 % interval from `low` to `high`, None where none was judged; `n`
    rollouts in all, the share `scored` of them that have a score at all, and the mean `reward` of those, None where
    there are none. What the environment failed is not judged. `environments` has the same of each by its name, where
    there are several: one rate over easy and hard ones is of neither.
    """

    success: float | None
    low: float | None
    high: float | None
    judged: int
    n: int
    scored: float
    reward: float | None
    environments: NotRequired[dict[str, Rate]]


class Evaluation(TypedDict):
    """What eval.json says of one moment."""

    split: str
    tasks: int
    rollouts_per_task: int
    sampled: Rate
    greedy: Rate


def evaluate(
    trainer: EnvGRPOTrainer,
    dataset: Dataset,
    *,
    rollouts_per_task: int = 4,
    success_at: float = 1.0,
    seed: int = 0,
    phase: str = "eval",
    progress: Callable[[str, int, int], None] | None = None,
) -> Evaluation:
    """Play every task `rollouts_per_task` times sampled as in training, and once greedily.

    Args:
        trainer: Holds the model and the environments.
        dataset: The tasks, as from `OpenRewardSpec.train_dataset`.
        rollouts_per_task: Sampled rollouts of each task.
        success_at: The score from which on an episode counts as a success.
        seed: Of the sampling; the trainer's own random state is left alone.
        phase: What rollouts.jsonl says of these rollouts.
        progress: Told the way of decoding, the rollouts done and their number.
    """

    def play(rollouts: int, greedy: bool) -> Rate:
        way = "greedy" if greedy else "sampled"
        told = (lambda done, of: progress(way, done, of)) if progress is not None else None
        scores = trainer.score(dataset, rollouts, greedy=greedy, seed=seed, phase=phase, progress=told)
        return rates(scores, success_at)

    sampled, greedy = play(rollouts_per_task, False), play(1, True)
    splits = sorted(set(dataset["split"]))
    return {
        "split": ", ".join(splits),
        "tasks": len(dataset),
        "rollouts_per_task": rollouts_per_task,
        "sampled": sampled,
        "greedy": greedy,
    }


def summary(result: Evaluation) -> str:
    """An evaluation in a line."""
    sampled, greedy = result["sampled"], result["greedy"]
    known = sampled["low"] is not None and sampled["high"] is not None
    between = f"95 % {sampled['low']:.2f} to {sampled['high']:.2f}, " if known else ""
    return (
        f"success {_figure(sampled)} sampled ({between}{result['tasks']} tasks, {_rollouts(sampled)}, "
        f"{sampled['scored']:.0%} scored), {_figure(greedy)} greedy"
        + ("" if greedy["judged"] == greedy["n"] else f" ({_rollouts(greedy)})")
        + "".join(
            f"; {name} {_figure(found)} sampled, {_figure(greedy['environments'][name])} greedy"
            for name, found in sampled.get("environments", {}).items()
        )
    )


def _figure(found: Rate) -> str:
    return "-" if found["success"] is None else f"{found['success']:.3f}"


def _rollouts(found: Rate) -> str:
    """How many, and how many of them could be judged where the environment failed some."""
    judged = "" if found["judged"] == found["n"] else f", {found['judged'] or 'none'} of them judged"
    return f"{found['n']} rollouts{judged}"


def rates(scores: Sequence[Score], success_at: float) -> Rate:
    """The success rate of rollouts, and that of each environment where they are of several."""
    by_name: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.task is not None:
            by_name[score.task.environment].append(score)
    found = rate(scores, success_at)
    if len(by_name) > 1:
        found["environments"] = {name: rate(by_name[name], success_at) for name in sorted(by_name)}
    return found


def rate(scores: Sequence[Score], success_at: float) -> Rate:
    """The success rate of rollouts. Those that the environment failed before a score came say nothing of the model and
    are left out; an unscored rollout of any other kind is no success."""
    fair = [score for score in scores if score.reward is not None or not score.failed]
    rewards = [score.reward for score in scores if score.reward is not None]
    by_task: dict[Any, list[bool]] = defaultdict(list)
    for score in fair:
        by_task[score.task].append(score.reward is not None and score.reward >= success_at)
    low, high = interval(list(by_task.values())) if fair else (None, None)
    hits = sum(sum(task) for task in by_task.values())
    return {
        "success": hits / len(fair) if fair else None,
        "low": low,
        "high": high,
        "judged": len(fair),
        "n": len(scores),
        "scored": len(rewards) / len(scores) if scores else 0.0,
        "reward": math.fsum(rewards) / len(rewards) if rewards else None,
    }


def interval(tasks: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate, from the outcomes of each task.

    Rollouts of one task are alike, so they count for fewer than they are: their number is divided by the design effect,
    the variance of task means over what independent rollouts would have (Kish, Survey Sampling, 1965), and where that
    cannot be estimated because all came out the same, tasks are counted instead.
    """
    n = sum(len(task) for task in tasks)
    if n == 0:
        return 0.0, 1.0
    p = sum(sum(task) for task in tasks) / n
    size = float(len(tasks))
    if 0 < p < 1 and 1 < len(tasks) < n:
        spread = math.fsum((sum(task) - p * len(task)) ** 2 for task in tasks) * len(tasks) / (len(tasks) - 1) / n**2
        size = min(float(n), p * (1 - p) / spread) if spread > 0 else float(n)
    centre = (p + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z * math.sqrt(p * (1 - p) / size + Z**2 / (4 * size**2)) / (1 + Z**2 / size)
    return max(0.0, centre - half), min(1.0, centre + half)
