"""Whether a run had anything to learn from: rewards at all, and groups of rollouts in which they differ."""

from __future__ import annotations

from collections.abc import Mapping

Steps = Mapping[int, Mapping[str, float]]
"""What metrics.jsonl has of the training steps, as numbers: a reward that is none is missing."""


def nothing_scored(steps: Steps) -> str | None:
    """Why nothing was learned where no rollout of the logged steps was scored, else None."""
    if not steps or any("reward" in values or values.get("env/scored") != 0 for values in steps.values()):
        return None
    if all(values.get("env/environment_errors", 0) >= 1 for values in steps.values()):
        return "the environment failed every rollout, and a failure of its own is no score"
    return "no episode came to a grade; unfinished_reward counts giving up as a failure (docs/rewards.md)"


def nothing_differed(steps: Steps) -> bool:
    """Whether rollouts were scored, but those of a group never differently: GRPO learns from differences alone."""
    graded = [values for values in steps.values() if "reward" in values]
    return bool(graded) and all(values.get("frac_reward_zero_std") == 1 for values in graded)


def warning(steps: Steps) -> str | None:
    """A line for people where a run can have learned nothing."""
    if why := nothing_scored(steps):
        return f"nothing was scored in {count(steps)}, so nothing was learned: {why}"
    if nothing_differed(steps):
        return (
            f"no group of rollouts had two different rewards in {count(steps)}, so nothing was learned: the tasks are "
            "too hard or too easy for the model, or the reward is the same whatever it does"
        )
    return None


def count(steps: Steps) -> str:
    """How many steps were logged, in words."""
    return f"{len(steps)} logged step{'' if len(steps) == 1 else 's'}"
