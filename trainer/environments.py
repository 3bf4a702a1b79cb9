"""A run's environments, asked for their tasks and tools before anything else is done."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.mixture import Mixture
from trainer.ors.spec import OpenRewardSpec

if TYPE_CHECKING:
    from datasets import Dataset

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
    without = [entry for entry in entries if entry.weight is None]
    if 0 < len(without) < len(entries):
        place = f"{without[0].place}: " if without[0].place else ""
        raise ConfigurationError(f"{place}no weight, where another has one: give every environment a weight, or none")
    deadline = time.monotonic() + config.run.wait
    for spec in specs:
        _await(spec, deadline, config.run.wait)
    given = None if weights[0] is None else [float(weight or 0) for weight in weights]
    mixture = Mixture(specs, weights=given, size=config.run.mixture_size, seed=config.grpo.seed)
    single = len(specs) == 1 and given is None and config.run.mixture_size is None
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
            _ = spec.train_dataset
            return
        except EnvironmentFailure as failure:
            if failure.kind not in ("unreachable", "timeout"):
                raise
            if time.monotonic() >= deadline:
                raise EnvironmentFailure(failure.kind, f"{failure}; waited {wait:g} s for it (--wait)") from None
            time.sleep(min(1.0, max(deadline - time.monotonic(), 0.05)))


def _held_out(config: Config, mixture: Mixture) -> Dataset | None:
    evaluated = [mixture.specs[part.at].of_split(part.split, part.num_tasks) for part in held_out(config)]
    return Mixture(evaluated, seed=0).train_dataset if evaluated else None


@dataclass(frozen=True)
class HeldOut:
    """Tasks to evaluate on: of a split, for the entry at a place in the list; the first so many, or all for None."""

    at: int
    split: str
    num_tasks: int | None


def held_out(config: Config) -> list[HeldOut]:
    """What to evaluate on. A task that several entries of one environment ask for counts once, as the first of them
    names and scores it: a task played twice would make the interval of the success rate narrower than it is."""
    found: dict[tuple[str, str | None, str], HeldOut] = {}
    for at, entry in enumerate(config.environments):
        split, size = entry.eval_split or config.run.eval_split, entry.eval_tasks or config.run.eval_tasks
        if split is None:
            continue
        key = (entry.spec().address, entry.env_name, split)
        first = found.get(key, HeldOut(at, split, size))
        largest = None if size is None or first.num_tasks is None else max(size, first.num_tasks)
        found[key] = replace(first, num_tasks=largest)
    return list(found.values())
