"""What a run is told to do: a YAML file and flags, in the manner of TRL's own commands."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import torch
import yaml
from trl import GRPOConfig, ModelConfig, TrlParser

from trainer import variables
from trainer.arguments import OF_ONE_ENVIRONMENT, EnvironmentConfig, RunArguments, check_key
from trainer.ors.errors import ConfigurationError
from trainer.values import check_evaluated, check_not_null, check_sizes, check_values

STARTER = "starter"
"""The model name that stands for the demo's own model, built on the spot."""

DEFAULTS: dict[str, Any] = {
    "output_dir": "runs/train",
    "logging_steps": 1,
    "save_steps": 25,
    "save_total_limit": 2,
    "report_to": "none",
}
"""Where ours differ from TRL's: a journal of every step, and checkpoints that do not fill the disk of a long run."""

CPU_DEFAULTS: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "dataloader_pin_memory": False,
}

FILLED = "model_init_kwargs"
"""The one key of TRL's in which `${VARIABLE}` is filled in, when the model is loaded."""

_HINTS = {f.name: f.type for kind in (RunArguments, GRPOConfig, ModelConfig) for f in fields(kind)}
_NOT_KEPT = (*OF_ONE_ENVIRONMENT, "resume", "hub_token")


@dataclass(frozen=True)
class Config:
    """A run's whole configuration. `given` is what was asked for, without defaults: enough to ask for it again."""

    run: RunArguments
    grpo: GRPOConfig
    model: ModelConfig
    environments: list[EnvironmentConfig]
    given: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write what was given as YAML that starts the same run again; no secret is in it."""
        path.write_text(yaml.safe_dump(dict(self.given), sort_keys=False, allow_unicode=True))


class _Parser(TrlParser):  # type: ignore[misc]
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(re.sub(r"(?<=--)(\w+)/\S+(?=:)", r"\1", message))


def _parser() -> _Parser:
    return _Parser([RunArguments, GRPOConfig, ModelConfig], prog="ors-train train", allow_abbrev=False)


def load(
    arguments: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
    entries: Sequence[EnvironmentConfig] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration that a command line asks for: `--config FILE`, and flags, which win.

    Args:
        arguments: The command line after the verb.
        defaults: What holds where neither says anything.
        entries: The environments, where the caller knows them and not the file.
        overrides: What holds whatever the file says.

    Raises:
        ConfigurationError: an unknown key, a value that does not fit, no environment; the message names it.
    """
    rest, path = _take_config(list(arguments))
    file = _read(path) if path is not None else {}
    listed = file.pop("environments", None)
    parser = _parser()
    actions = {action.dest: action for action in reversed(parser._actions) if action.dest != "help"}
    for key in file:
        check_key(key, [*actions, "environments"], str(path))
    machine = {} if torch.cuda.is_available() else CPU_DEFAULTS
    for key, value in file.items():
        check_not_null(key, value, _HINTS[key], str(path))
    texts = {key: _as_flag(actions[key], value, str(path)) for key, value in file.items()}
    parser.set_defaults_with_config(**{**DEFAULTS, **machine, **(defaults or {}), **texts, **(overrides or {})})
    check_sizes(vars(parser.parse_known_args(rest)[0]), int(os.environ.get("WORLD_SIZE", "1")))
    try:
        with warnings.catch_warnings():  # TRL's own default of that field
            warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)
            run, grpo, model, unknown = parser.parse_args_into_dataclasses(
                rest, return_remaining_strings=True, look_for_args_file=False
            )
    except ConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigurationError(_one_line(error)) from error
    for word in unknown:
        if not word.startswith("--"):
            raise ConfigurationError(f"the command line: {word!r} belongs to no flag")
        check_key(word.removeprefix("--").partition("=")[0].replace("-", "_"), actions, "the command line")
    if not model.model_name_or_path:
        raise ConfigurationError(
            "no model: give --model_name_or_path (a folder, a hub name, or starter for the demo's)"
        )
    flags = _flags(rest)
    variables.check_by_variable("hub_token", file.get("hub_token"))
    variables.check_by_variable("--hub_token", flags.get("hub_token"))
    if grpo.hub_token:  # checkpoints keep all arguments: the token is given by variable, which the hub's client reads
        os.environ["HF_TOKEN"], grpo.hub_token = variables.filled(grpo.hub_token, "hub_token"), None
    for key, value in (*file.items(), *vars(grpo).items()):
        variables.check_nested(key, value, is_filled=key == FILLED)
    understood = {**vars(grpo), **vars(model), **vars(run)}
    check_values(understood, {**file, **flags})
    environments = list(entries) if entries is not None else _environments(listed, run, {**file, **flags}, str(path))
    check_evaluated(understood, [run.eval_split, *(entry.eval_split for entry in environments)])
    own = {f.name: getattr(run, f.name) for f in fields(RunArguments)}
    given = {**(defaults or {}), **file, **flags, **own}
    given = {key: value for key, value in given.items() if key not in _NOT_KEPT}
    return Config(run, grpo, model, environments, {**given, "environments": [e.kept() for e in environments]})


def _environments(entries: Any, run: RunArguments, given: Mapping[str, Any], where: str) -> list[EnvironmentConfig]:
    if entries is not None and (both := [key for key in OF_ONE_ENVIRONMENT if key in given]):
        raise ConfigurationError(f"{both[0]} is of the one environment at --url; give that or a list, not both")
    if run.url is not None:
        return [EnvironmentConfig(**{key: getattr(run, key) for key in OF_ONE_ENVIRONMENT})]
    if entries is not None and not isinstance(entries, list):
        raise ConfigurationError(
            f"{where}: environments is a list, each entry with a url, not {type(entries).__name__}"
        )
    if not entries:
        raise ConfigurationError("no environment: give --url, or a list under environments: in the --config file")
    places = [f"{where}, environments[{at}]" for at in range(len(entries))]
    return [EnvironmentConfig.of(entry, place) for entry, place in zip(entries, places, strict=True)]


def _take_config(arguments: list[str]) -> tuple[list[str], Path | None]:
    taken = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    taken.add_argument("--config", type=Path)
    try:
        found, rest = taken.parse_known_args(arguments)
    except argparse.ArgumentError:
        raise ConfigurationError("--config takes the path of a YAML file") from None
    return rest, found.config


def _read(path: Path) -> dict[str, Any]:
    try:
        file = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{path}{line} is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no YAML: {_one_line(error)}") from None
    if file is None:
        raise ConfigurationError(f"{path} is empty")
    if not isinstance(file, dict):
        raise ConfigurationError(f"{path} is no mapping of keys to values")
    return {str(key): value for key, value in file.items()}


def _as_flag(action: argparse.Action, value: Any, where: str) -> Any:
    """A value of the file as a flag would give it: in text, since argparse checks the type of no other default."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        if type(value).__name__ not in str(_HINTS[action.dest]):
            raise ConfigurationError(f"{where}: {action.dest} is one value, not a {type(value).__name__}")
        return value
    if value is False and "no" in (action.choices or ()):
        return "no"  # YAML takes a bare no for false
    return str(value)


def _flags(arguments: Sequence[str]) -> dict[str, Any]:
    """What the flags set, and nothing else, as keys and values."""
    parser = _parser()
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    return dict(vars(parser.parse_known_args(list(arguments))[0]))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
