"""Values that TRL takes and that cannot work here, or would do nothing: said before anything is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from trainer.ors.errors import ConfigurationError

SEEDS = 2**32  # that numpy takes

_BOUNDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "max_steps": (lambda value: value == -1 or value >= 1, "at least 1, or -1 where num_train_epochs says how many"),
    "num_train_epochs": (lambda value: value > 0, "above 0"),
    "per_device_train_batch_size": (lambda value: value >= 1, "at least 1"),
    "per_device_eval_batch_size": (lambda value: value >= 1, "at least 1"),
    "gradient_accumulation_steps": (lambda value: value >= 1, "at least 1"),
    "learning_rate": (lambda value: value >= 0, "at least 0"),
    "temperature": (lambda value: value > 0, "above 0"),
    "seed": (lambda value: 0 <= value < SEEDS, f"between 0 and {SEEDS - 1}"),
}
"""What TRL or torch would find out about when the run has begun, or never."""

_INSTEAD: dict[str, str] = {
    "resume_from_checkpoint": "--resume CHECKPOINT or --resume auto goes on with a run",
    "do_predict": "ors-train eval plays the tasks of a split",
}
"""Keys of TRL's that its trainer never reads, and what does what they seem to do."""


def check_values(arguments: Mapping[str, Any], given: Collection[str]) -> None:
    """Raises ConfigurationError for a value that cannot be, or a key that would have no effect.

    Args:
        arguments: The fields of TRL's and of the project's own arguments, as they were understood.
        given: The keys that the file or the flags set.
    """
    for key, value in arguments.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and math.isnan(number):
                raise ConfigurationError(f"{key} is nan, which is no number")
    for key, instead in _INSTEAD.items():
        if key in given and arguments[key]:
            raise ConfigurationError(f"{key} has no effect here: {instead}")


def check_sizes(arguments: Mapping[str, Any], processes: int) -> None:
    """Raises ConfigurationError for a number out of bounds, and for a batch that is not made of whole groups, in the
    words of the keys that were given: TRL divides by them, and names products of them that nobody set.

    Args:
        arguments: What the file and the flags say, before TRL makes its own of it.
        processes: Of the run, each of which has a batch of its own.
    """
    for key in _BOUNDS:
        check_bounds(key, arguments[key])
    for key in ("generation_batch_size", "steps_per_generation", "num_generations_eval"):
        if arguments[key] is not None and arguments[key] < 1:
            raise ConfigurationError(f"{key} is at least 1, not {arguments[key]}")
    group = arguments["num_generations"]
    if group is None or group < 2:
        raise ConfigurationError(f"num_generations is at least 2, since a group's rewards are compared, not {group}")

    def sizes(*keys: str) -> dict[str, int]:
        return {key: arguments[key] for key in keys}

    world = {"processes": processes}
    batch = sizes("per_device_train_batch_size") | world
    if arguments["generation_batch_size"] is not None:
        _check_multiple(sizes("generation_batch_size"), batch)
        batch = sizes("generation_batch_size")
    else:
        steps = arguments["steps_per_generation"] is not None
        batch |= sizes("steps_per_generation" if steps else "gradient_accumulation_steps")
    _check_multiple(batch, sizes("num_generations"))
    if arguments["eval_strategy"] != "no":
        played = "num_generations" if arguments["num_generations_eval"] is None else "num_generations_eval"
        _check_multiple(sizes("per_device_eval_batch_size") | world, sizes(played))


def _check_multiple(factors: Mapping[str, int], of: Mapping[str, int]) -> None:
    if math.prod(factors.values()) % math.prod(of.values()):
        raise ConfigurationError(f"{_product(factors)} is no multiple of {_product(of)}")


def _product(factors: Mapping[str, int]) -> str:
    first, *others = factors
    return " x ".join(f"{key} ({factors[key]})" for key in (first, *(key for key in others if factors[key] != 1)))


def check_bounds(key: str, value: float, flag: str = "") -> None:
    """Raises ConfigurationError for a number that cannot be the key's; `flag` is what people call it, if not so."""
    fits, words = _BOUNDS[key]
    if not fits(value):
        raise ConfigurationError(f"{flag or key} is {words}, not {value}")


def check_not_null(key: str, value: Any, hint: object, where: str) -> None:
    """Raises ConfigurationError for a null where the key's type has none: argparse would let it through."""
    if value is None and not any(word in str(hint) for word in ("None", "Optional")):
        raise ConfigurationError(f"{where}: {key} is null; leave the key out for its default")


def check_evaluated(arguments: Mapping[str, Any], splits: Collection[str | None]) -> None:
    """Raises ConfigurationError where TRL is told to evaluate and no entry has a split to evaluate on."""
    asked = [key for key in ("eval_strategy", "eval_on_start", "do_eval") if arguments[key] not in ("no", False)]
    if asked and not any(splits):
        raise ConfigurationError(f"{asked[0]} evaluates on the tasks of eval_split, and none is given")
