"""Several environments in one run: one dataset, a factory for each, one reward function."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainer.ors.errors import ConfigurationError
from trainer.ors.rewards import with_coverage
from trainer.ors.spec import OpenRewardSpec, Row, as_dataset

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.ors.rollout import Factory, Rollout


@dataclass(frozen=True)
class EachItsOwn:
    """A TRL reward function that scores each episode as its own spec says. Picklable."""

    @property
    def __name__(self) -> str:
        """What TRL logs the reward under."""
        return "environments"

    def __call__(
        self, /, environments: Sequence[Rollout], log_metric: Callable[[str, float], None] | None = None, **_: Any
    ) -> list[float | None]:
        """Scores, one an episode, index-aligned. Logs `env/scored` as `trainer.ors.rewards.Reward` does."""
        return with_coverage([each._plan.reward.score(each) for each in environments], log_metric)


class Mixture:
    """Several specs as one, each with its own URL, split and reward settings, for the three slots of a TRL trainer.

    Environments are told apart by name. Where two specs have the same (one server under two splits), the split is
    added: `echo/train`, `echo/test`.

    Args:
        specs: The environments.
        weights: How often each is drawn, relative to the others. None draws every task once.
        size: Rows of an epoch. None: as many as there are tasks in all.
        seed: Of the order, and of which tasks come once more than others.

    Raises:
        ConfigurationError: no specs, weights that do not fit, names that cannot be told apart, or an epoch in which an
            environment has no row.
    """

    def __init__(
        self,
        specs: Sequence[OpenRewardSpec],
        *,
        weights: Sequence[float] | None = None,
        size: int | None = None,
        seed: int = 0,
    ) -> None:
        if not specs:
            raise ConfigurationError("a mixture needs at least one environment")
        if weights is not None and (len(weights) != len(specs) or not all(0 < w < math.inf for w in weights)):
            raise ConfigurationError(f"a mixture of {len(specs)} environments takes {len(specs)} weights above 0")
        if size is not None and size < 1:
            raise ConfigurationError(f"the size of a mixture is at least 1, not {size}")
        self._given = list(specs)
        self._weights = list(weights) if weights is not None else None
        self._size = size
        self._seed = seed

    @cached_property
    def specs(self) -> list[OpenRewardSpec]:
        """The specs, their names made unique."""
        names = [spec.name for spec in self._given]
        counts = Counter(names)
        unique = [
            name if counts[name] == 1 else f"{name}/{s.split}" for name, s in zip(names, self._given, strict=True)
        ]
        if twice := [name for name, count in Counter(unique).items() if count > 1]:
            said = "give each its own (name= in Python, label: in a file)"
            raise ConfigurationError(f"two environments of the mixture are called {twice[0]!r}: {said}")
        return [spec.named(name) for spec, name in zip(self._given, unique, strict=True)]

    @cached_property
    def train_dataset(self) -> Dataset:
        """The rows of all environments in one order, each with its `environment`. Fields that an environment does not
        have are None. By weight, each environment has its exact share of the rows, whole epochs of its tasks first."""
        order = random.Random(self._seed)
        rows: list[Row] = []
        tasks = [spec._rows() for spec in self.specs]
        counts = self._counts([len(own) for own in tasks])
        if 0 in counts:
            said = f"{self.specs[counts.index(0)].name} has no row in an epoch of {sum(counts)}"
            raise ConfigurationError(f"{said}: give it more weight, or the epoch more rows")
        for own, count in zip(tasks, counts, strict=True):
            epochs, rest = divmod(count, len(own))
            rows += own * epochs + order.sample(own, rest)
        order.shuffle(rows)
        return as_dataset(rows)

    def _counts(self, lengths: Sequence[int]) -> list[int]:
        """Rows of each environment: its share of the size, by largest remainder."""
        weights = self._weights or list(lengths)
        size = self._size if self._size is not None else sum(lengths)
        shares = [size * weight / sum(weights) for weight in weights]
        counts = [int(share) for share in shares]
        by_remainder = sorted(range(len(shares)), key=lambda at: counts[at] - shares[at])
        for at in by_remainder[: size - sum(counts)]:
            counts[at] += 1
        return counts

    @cached_property
    def environment_factory(self) -> dict[str, Factory]:
        """A factory for each environment, by name."""
        return {spec.name: spec.environment_factory for spec in self.specs}

    @property
    def reward_funcs(self) -> EachItsOwn:
        """One reward function for all of them."""
        return EachItsOwn()
