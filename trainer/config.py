"""What a run is told to do: a YAML file and flags, in the manner of TRL's own commands."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

import torch
import yaml
from trl import GRPOConfig, ModelConfig, TrlParser

from trainer.ors.errors import ConfigurationError
from trainer.ors.spec import OpenRewardSpec

STARTER = "starter"
"""The model name that stands for the demo's own model, built on the spot."""

DEFAULTS: dict[str, Any] = {"logging_steps": 1, "save_steps": 25, "save_total_limit": 2, "report_to": "none"}
"""Where ours differ from TRL's: a journal of every step, and checkpoints that do not fill the disk of a long run."""

CPU_DEFAULTS: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "dataloader_pin_memory": False,
}

_SECRET_KEYS = ("api_key", "hf_token")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass
class RunArguments:
    """What a run is of, beside TRL's GRPOConfig and ModelConfig."""

    url: str | None = field(
        default=None, metadata={"help": "URL of an ORS server: short for a list of one environment."}
    )
    env_name: str | None = field(default=None, metadata={"help": "With --url: the environment on that server."})
    split: str = field(default="train", metadata={"help": "With --url: the split to train on."})
    num_tasks: int | None = field(default=None, metadata={"help": "With --url: take only the first so many tasks."})
    eval_split: str | None = field(
        default=None,
        metadata={"help": "Evaluate on this split before and after, in environments that do not say theirs."},
    )
    eval_tasks: int | None = field(default=None, metadata={"help": "Evaluate on the first so many tasks of it."})
    eval_rollouts: int = field(default=4, metadata={"help": "Sampled rollouts of each task of an evaluation."})
    success_at: float = field(default=1.0, metadata={"help": "The score from which on an episode is a success."})
    mixture_size: int | None = field(
        default=None, metadata={"help": "Rows of an epoch when environments have weights. Default: all tasks together."}
    )
    resume: str | None = field(
        default=None, metadata={"help": "A checkpoint folder to go on from, or auto for the run folder's last, if any."}
    )
    wait: float = field(default=30.0, metadata={"help": "Seconds to wait for environments that do not answer yet."})
    outage_timeout: float = field(
        default=600.0,
        metadata={"help": "Seconds for which a run is held when an environment stays away; then it stops."},
    )


@dataclass(frozen=True)
class EnvironmentConfig:
    """One entry of `environments:`. `url` or `name` (of the catalog); the rest as in OpenRewardSpec.

    `api_key`, `hf_token` and the values of `headers` take `${VARIABLE}`; `secrets` maps a secret to the variable that
    holds it, or to `{variable: …, domains: […]}`.
    """

    url: str | None = None
    name: str | None = None
    label: str | None = None
    env_name: str | None = None
    split: str = "train"
    num_tasks: int | None = None
    indices: list[int] | None = None
    weight: float | None = None
    reward: Any = "outcome"
    unfinished_reward: float | None = None
    eval_split: str | None = None
    eval_tasks: int | None = None
    api_key: str | None = None
    hf_token: str | None = None
    headers: dict[str, str] | None = None
    secrets: dict[str, Any] | None = None
    open_timeout: float = 120.0
    call_timeout: float = 600.0
    keepalive: float = 15.0
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.name is None):
            raise ConfigurationError("an entry of environments has a url, or the name of one in the catalog")
        for key in _SECRET_KEYS:
            value = getattr(self, key)
            if value is not None and not _VARIABLE.search(value):
                raise ConfigurationError(f"{key} takes ${{VARIABLE}}, so that the key itself stands in no file")

    def spec(self) -> OpenRewardSpec:
        """The environment's spec, variables filled in."""
        return OpenRewardSpec(
            filled(self.url or self.name or ""),
            num_tasks=self.num_tasks,
            split=self.split,
            indices=self.indices,
            api_key=None if self.api_key is None else filled(self.api_key),
            secrets={key: _secret(key, value) for key, value in (self.secrets or {}).items()},
            env_name=self.env_name,
            name=self.label,
            reward=self.reward,
            unfinished_reward=self.unfinished_reward,
            headers={key: filled(str(value)) for key, value in (self.headers or {}).items()},
            hf_token=None if self.hf_token is None else filled(self.hf_token),
            open_timeout=self.open_timeout,
            call_timeout=self.call_timeout,
            keepalive=self.keepalive,
            max_concurrency=self.max_concurrency,
        )


@dataclass(frozen=True)
class Config:
    """A run's whole configuration."""

    run: RunArguments
    grpo: GRPOConfig
    model: ModelConfig
    environments: list[EnvironmentConfig]
    given: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write what was given as YAML that starts the same run again; no secret is in it."""
        path.write_text(yaml.safe_dump(dict(self.given), sort_keys=False))


class _Parser(TrlParser):  # type: ignore[misc]
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(message)


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
    parser = _Parser([RunArguments, GRPOConfig, ModelConfig], prog="ors-train train")
    known = {action.dest for action in parser._actions}
    for key in file:
        _check_key(key, known | {"environments"}, str(path))
    machine = {} if torch.cuda.is_available() else CPU_DEFAULTS
    parser.set_defaults_with_config(**{**DEFAULTS, **machine, **(defaults or {}), **file, **(overrides or {})})
    try:
        run, grpo, model, unknown = parser.parse_args_into_dataclasses(rest, return_remaining_strings=True)
    except ConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigurationError(_one_line(error)) from error
    for word in unknown:
        _check_key(word.lstrip("-").partition("=")[0], known, "the command line")
    if not model.model_name_or_path:
        raise ConfigurationError(
            "no model: give --model_name_or_path (a folder, a hub name, or starter for the demo's)"
        )
    environments = list(entries) if entries is not None else _environments(listed, run, str(path))
    flags = {key: value for key, value in _flags(rest).items() if key not in RunArguments.__dataclass_fields__}
    kept = [_without_secrets(entry) for entry in listed or map(vars, environments)]
    own = {f.name: getattr(run, f.name) for f in fields(RunArguments) if f.name not in _ONE_ENVIRONMENT}
    given = {**(defaults or {}), **file, **flags, **own, "environments": kept}
    return Config(run, grpo, model, environments, given)


_ONE_ENVIRONMENT = ("url", "env_name", "split", "num_tasks", "resume")


def _environments(entries: Any, run: RunArguments, where: str) -> list[EnvironmentConfig]:
    if entries is not None and run.url is not None:
        raise ConfigurationError("give --url or a list of environments, not both")
    if run.url is not None:
        return [EnvironmentConfig(url=run.url, env_name=run.env_name, split=run.split, num_tasks=run.num_tasks)]
    if not isinstance(entries, list) or not entries:
        raise ConfigurationError("no environment: give --url, or a list under environments: in the --config file")
    known = {f.name for f in fields(EnvironmentConfig)}
    found = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{where}: an entry of environments is a mapping with a url, not {entry!r}")
        for key in entry:
            _check_key(str(key), known, f"{where}, environments")
        found.append(EnvironmentConfig(**entry))
    return found


def _take_config(arguments: list[str]) -> tuple[list[str], Path | None]:
    for at, word in enumerate(arguments):
        if word == "--config" and at + 1 < len(arguments):
            return arguments[:at] + arguments[at + 2 :], Path(arguments[at + 1])
        if word.startswith("--config="):
            return arguments[:at] + arguments[at + 1 :], Path(word.partition("=")[2])
    return arguments, None


def _read(path: Path) -> dict[str, Any]:
    try:
        file = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no YAML: {_one_line(error)}") from None
    if not isinstance(file, dict):
        raise ConfigurationError(f"{path} is no mapping of keys to values")
    return {str(key): value for key, value in file.items()}


def _check_key(key: str, known: set[str], where: str) -> None:
    if key not in known:
        near = difflib.get_close_matches(key, sorted(known), 1)
        raise ConfigurationError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _flags(arguments: Sequence[str]) -> dict[str, Any]:
    """The flags as keys and values, for the record."""
    flags: dict[str, Any] = {}
    for at, word in enumerate(arguments):
        if word.startswith("--"):
            key, given, value = word[2:].partition("=")
            following = (
                arguments[at + 1] if at + 1 < len(arguments) and not arguments[at + 1].startswith("--") else "true"
            )
            flags[key] = yaml.safe_load(value if given else following)
    return flags


def filled(text: str) -> str:
    """The text with each `${VARIABLE}` replaced. Raises ConfigurationError for one that is not set."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigurationError(f"the environment variable {match[1]} is not set, and {text!r} needs it")
        return found

    return _VARIABLE.sub(value, text)


def _secret(name: str, value: Any) -> str | tuple[str, Sequence[str]]:
    variable, domains = (value.get("variable"), value.get("domains")) if isinstance(value, dict) else (value, None)
    secret = os.environ.get(str(variable))
    if secret is None:
        raise ConfigurationError(
            f"the environment variable {variable} is not set, and the secret {name!r} is taken from it"
        )
    return secret if domains is None else (secret, list(domains))


def _without_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in entry.items() if value is not None}
    if isinstance(kept.get("headers"), dict):
        kept["headers"] = {k: v if _VARIABLE.search(str(v)) else "(not kept)" for k, v in kept["headers"].items()}
    if isinstance(kept.get("url"), str):
        kept["url"] = re.sub(r"//[^/@]*@", "//", kept["url"])
    return kept


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
