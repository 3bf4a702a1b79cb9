"""Values that TRL takes and that cannot work here, or would do nothing: said before anything is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from trainer.ors.errors import ConfigurationError

_BOUNDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "max_steps": (lambda value: value == -1 or value >= 1, "at least 1, or -1 where num_train_epochs says how many"),
    "num_train_epochs": (lambda value: value > 0, "above 0"),
    "per_device_train_batch_size": (lambda value: value >= 1, "at least 1"),
    "gradient_accumulation_steps": (lambda value: value >= 1, "at least 1"),
    "learning_rate": (lambda value: value >= 0, "at least 0"),
    "temperature": (lambda value: value > 0, "above 0"),
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
    for key, (fits, words) in _BOUNDS.items():
        if not fits(arguments[key]):
            raise ConfigurationError(f"{key} is {words}, not {arguments[key]}")
    for key, instead in _INSTEAD.items():
        if key in given and arguments[key]:
            raise ConfigurationError(f"{key} has no effect here: {instead}")


def check_not_null(key: str, value: Any, hint: object, where: str) -> None:
    """Raises ConfigurationError for a null where the key's type has none: argparse would let it through."""
    if value is None and not any(word in str(hint) for word in ("None", "Optional")):
        raise ConfigurationError(f"{where}: {key} is null; leave the key out for its default")


def check_evaluated(arguments: Mapping[str, Any], splits: Collection[str | None]) -> None:
    """Raises ConfigurationError where TRL is told to evaluate and no entry has a split to evaluate on."""
    asked = [key for key in ("eval_strategy", "eval_on_start", "do_eval") if arguments[key] not in ("no", False)]
    if asked and not any(splits):
        raise ConfigurationError(f"{asked[0]} evaluates on the tasks of eval_split, and none is given")
