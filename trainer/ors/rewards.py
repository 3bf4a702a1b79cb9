"""From what happened in an episode to the number a trainer learns from, or None where there is no such number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal, Protocol, get_args

from trainer.ors.errors import ConfigurationError, EnvironmentFailure

TOO_LARGE = (2 - 2**-24) * 2.0**127  # rounds to infinity in single precision, which trainers keep rewards in
Reduction = Literal["outcome", "sum", "mean", "max", "min"]


class Episode(Protocol):
    """What a reward is computed from: the public state of a rollout's adapter."""

    rewards: list[float | None]
    finished: bool
    failure: EnvironmentFailure | None


@dataclass(frozen=True)
class Reward:
    """A TRL reward function over the environments of a batch. Picklable; compares by its settings.

    An episode's score is `reduction` over the rewards that its tool calls gave: the last of them, or their sum, mean,
    maximum or minimum. It is None where no call gave one, and where single precision cannot hold it. An episode that
    the environment's failure cut short keeps its last reward as its outcome, but has no sum, mean, maximum or minimum:
    those of half an episode are not those of a whole one.

    Args:
        reduction: How an episode's rewards become one number.
        unfinished: What an episode is worth that ended without a score and without fault of the environment: the model
            gave up, ran into the limit of tool calls or of tokens, or made no valid call. None leaves it unscored. An
            episode that was finished yet not scored, or that the environment failed, stays unscored in any case.
    """

    reduction: Reduction = "outcome"
    unfinished: float | None = None

    def __post_init__(self) -> None:
        if self.reduction not in get_args(Reduction):
            known = ", ".join(get_args(Reduction))
            raise ConfigurationError(f"there is no reward {self.reduction!r}; there are: {known}")
        if self.unfinished is not None and as_score(self.unfinished) is None:
            raise ConfigurationError(
                f"unfinished_reward is a finite number that single precision holds, not {self.unfinished!r}"
            )

    @property
    def __name__(self) -> str:
        """What TRL logs the reward under: `rewards/outcome/mean`."""
        return self.reduction

    def __call__(
        self, /, environments: Sequence[Episode], log_metric: Callable[[str, float], None] | None = None, **_: Any
    ) -> list[float | None]:
        """Scores, one an episode, index-aligned. Logs the share that has one as `env/scored`, beside TRL's mean reward,
        which averages those alone."""
        return with_coverage([self.score(episode) for episode in environments], log_metric)

    def score(self, episode: Episode) -> float | None:
        """One episode's score."""
        seen = [reward for reward in map(as_score, episode.rewards) if reward is not None]
        if not seen:
            forgiven = episode.finished or episode.failure is not None
            return None if forgiven else self.unfinished
        if self.reduction == "outcome":
            return seen[-1]
        if episode.failure is not None:
            return None
        if self.reduction == "mean":
            return fsum(seen) / len(seen)
        return as_score(fsum(seen)) if self.reduction == "sum" else max(seen) if self.reduction == "max" else min(seen)


def as_score(value: float | None) -> float | None:
    """The value, or None where it is no number to learn from: not finite, or beyond single precision, where a trainer
    would have infinity for it and learn nothing from the whole group."""
    return float(value) if value is not None and -TOO_LARGE < value < TOO_LARGE else None


def with_coverage(scores: list[float | None], log_metric: Callable[[str, float], None] | None) -> list[float | None]:
    """The scores, after the share of episodes that have one was logged, where the trainer takes metrics."""
    if log_metric is not None and scores:
        log_metric("env/scored", sum(score is not None for score in scores) / len(scores))
    return scores
