"""A run's environments, asked for their tasks and tools before anything else is done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.mixture import Mixture
from trainer.ors.spec import OpenRewardSpec

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.arguments import EnvironmentConfig
    from trainer.config import Config


@dataclass(frozen=True)
class Environments:
    """What a trainer takes of environments: the three slots, the tasks to evaluate on, and facts for the record."""

    train_dataset: Dataset
    environment_factory: Any
    reward_funcs: Any
    eval_dataset: Dataset | None
    facts: list[dict[str, Any]]

    @property
    def all_tasks(self) -> list[dict[str, Any]]:
        """The rows to train on and those to evaluate on."""
        return [*self.train_dataset, *(self.eval_dataset or ())]


def environments(config: Config) -> Environments:
    """Ask the environments for their tasks and tools. Raises ORSError where one cannot give them."""
    entries = config.environments
    specs = [entry.spec() for entry in entries]
    weights = [entry.weight for entry in entries]
    if any(weight is None for weight in weights) and any(weight is not None for weight in weights):
        raise ConfigurationError("give every environment a weight, or none")
    deadline = time.monotonic() + config.run.wait
    for spec in specs:
        _await(spec, deadline, config.run.wait)
    given = None if weights[0] is None else [float(weight or 0) for weight in weights]
    mixture = Mixture(specs, weights=given, size=config.run.mixture_size, seed=config.grpo.seed)
    single = len(specs) == 1 and given is None
    train = specs[0].train_dataset if single else mixture.train_dataset
    factory = specs[0].environment_factory if single else mixture.environment_factory
    reward = specs[0].reward_funcs if single else mixture.reward_funcs
    facts = [
        {
            "name": spec.name,
            "url": spec.address,
            "env_name": entry.env_name,
            "split": spec.split,
            "num_tasks": len(spec.train_dataset),
        }
        for spec, entry in zip(mixture.specs, entries, strict=True)
    ]
    return Environments(train, factory, reward, _held_out(config, mixture), facts)


def _await(spec: OpenRewardSpec, deadline: float, wait: float) -> None:
    """Wait for an environment that does not answer yet: one that is started together with the run, say."""
    while True:
        try:
            _ = spec.name
            return
        except EnvironmentFailure as failure:
            if failure.kind not in ("unreachable", "timeout"):
                raise
            if time.monotonic() >= deadline:
                raise EnvironmentFailure(failure.kind, f"{failure}; waited {wait:g} s for it (--wait)") from None
            time.sleep(min(1.0, max(deadline - time.monotonic(), 0.05)))


def _held_out(config: Config, mixture: Mixture) -> Dataset | None:
    evaluated = [
        spec.of_split(split, num_tasks=entry.eval_tasks or config.run.eval_tasks)
        for spec, entry in zip(mixture.specs, config.environments, strict=True)
        if (split := held_out_split(config, entry)) is not None
    ]
    return Mixture(evaluated, seed=0).train_dataset if evaluated else None


def held_out_split(config: Config, entry: EnvironmentConfig) -> str | None:
    """The split of an environment to evaluate on, None where there is to be no evaluation."""
    return entry.eval_split or config.run.eval_split
