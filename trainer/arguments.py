"""The keys of a run that are this project's own: what it is of, and one entry of its list of environments.

TRL's keys are beside them in `trainer.config`; this file imports nothing of torch, so that `--help` is quick.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from trainer import variables
from trainer.ors.errors import ConfigurationError
from trainer.ors.spec import OpenRewardSpec


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
        default=None, metadata={"help": "Rows of an epoch. Default: as many as there are tasks in all."}
    )
    resume: str | None = field(
        default=None, metadata={"help": "A checkpoint folder to go on from, or auto for the run folder's last, if any."}
    )
    wait: float = field(default=30.0, metadata={"help": "Seconds to wait for environments that do not answer yet."})
    outage_timeout: float = field(
        default=600.0,
        metadata={"help": "Seconds for which a run is held when an environment stays away; then it stops."},
    )

    def __post_init__(self) -> None:
        for key in ("eval_tasks", "eval_rollouts", "mixture_size"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ConfigurationError(f"{key} is at least 1, not {value}")
        if not math.isfinite(self.success_at):
            raise ConfigurationError(f"success_at is a number, not {self.success_at}")
        for key in ("wait", "outage_timeout"):
            if not getattr(self, key) >= 0:
                raise ConfigurationError(f"{key} is a number of seconds, not {getattr(self, key)}")


OF_ONE_ENVIRONMENT = ("url", "env_name", "split", "num_tasks")
"""Keys of RunArguments that stand for a list of one environment."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """One entry of `environments:`. `url` or `name` (of the catalog); the rest as in OpenRewardSpec.

    `api_key`, `hf_token`, the values of `headers` and a password in the `url` take `${VARIABLE}` and are refused as
    themselves; `secrets` maps a secret to the variable that holds it, or to `{variable: …, domains: […]}`.
    `place` is no key: it is where the entry was read, and stands before what is wrong with it.

    Raises:
        ConfigurationError: neither `url` nor `name` or both, a key that is not in a variable, a number that cannot be.
    """

    url: str | None = None
    name: str | None = None
    label: str | None = None
    env_name: str | None = None
    split: str = "train"
    num_tasks: int | None = None
    indices: list[int] | None = None
    weight: float | None = None
    reward: str = "outcome"
    unfinished_reward: float | None = None
    eval_split: str | None = None
    eval_tasks: int | None = None
    api_key: str | None = None
    hf_token: str | None = None
    headers: dict[str, Any] | None = None
    secrets: dict[str, Any] | None = None
    open_timeout: float = 120.0
    call_timeout: float = 600.0
    keepalive: float = 15.0
    max_concurrency: int | None = None
    place: str | None = field(default=None, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        with _said_of(self.place):
            if self.url is None and self.name is None:
                raise ConfigurationError("an entry has a url, or the name of an environment in the catalog")
            if self.url is not None and self.name is not None:
                raise ConfigurationError("an entry has a url, or the name of an environment in the catalog, not both")
            variables.check_by_variable("api_key", self.api_key)
            variables.check_by_variable("hf_token", self.hf_token)
            variables.check_headers(self.headers or {})
            variables.check_url(self.url or "")
            if self.weight is not None and not 0 < self.weight < math.inf:
                raise ConfigurationError(f"weight is a number above 0, not {self.weight}")
            if self.eval_tasks is not None and self.eval_tasks < 1:
                raise ConfigurationError(f"eval_tasks is at least 1, not {self.eval_tasks}")

    @classmethod
    def of(cls, entry: Any, where: str) -> EnvironmentConfig:
        """The entry of a file. Raises ConfigurationError that names `where`, the key and what is wrong with it."""
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{where}: an entry is a mapping with a url, not {type(entry).__name__}")
        hints = get_type_hints(cls)
        for key in entry:
            check_key(str(key), OF_AN_ENTRY, where)
        return cls(**{k: _fitted(value, hints[k], f"{where}: {k}") for k, value in entry.items()}, place=where)

    def kept(self) -> dict[str, Any]:
        """The entry as it may be written down and read again: what differs from the defaults."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name in OF_AN_ENTRY and getattr(self, f.name) != f.default
        }

    def spec(self) -> OpenRewardSpec:
        """The environment's spec, variables filled in. Raises ConfigurationError that names the entry's place."""
        with _said_of(self.place):
            return self._spec()

    def _spec(self) -> OpenRewardSpec:
        return OpenRewardSpec(
            variables.filled_url(self.url) if self.url else variables.filled(self.name or "", "the name"),
            num_tasks=self.num_tasks,
            split=self.split,
            indices=self.indices,
            api_key=None if self.api_key is None else variables.filled(self.api_key, "api_key"),
            secrets={key: variables.secret(key, value) for key, value in (self.secrets or {}).items()},
            env_name=self.env_name,
            name=self.label,
            reward=self.reward,  # type: ignore[arg-type]  # checked there, with the names that exist
            unfinished_reward=self.unfinished_reward,
            headers={
                key: variables.filled(str(value), f"headers: {key}") for key, value in (self.headers or {}).items()
            },
            hf_token=None if self.hf_token is None else variables.filled(self.hf_token, "hf_token"),
            open_timeout=self.open_timeout,
            call_timeout=self.call_timeout,
            keepalive=self.keepalive,
            max_concurrency=self.max_concurrency,
        )


OF_AN_ENTRY = tuple(f.name for f in fields(EnvironmentConfig) if f.name != "place")
"""Keys of an entry of `environments:`."""

NOT_A_FLAG = "a key of an entry of environments: in a --config file"


@contextmanager
def _said_of(place: str | None) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        if place is None:
            raise
        raise ConfigurationError(f"{place}: {error}") from error


def check_key(key: str, known: Collection[str], where: str) -> None:
    """Raises ConfigurationError for a key that is not known, with where it belongs or what was probably meant."""
    if key not in known:
        if key in OF_AN_ENTRY:
            raise ConfigurationError(f"{where}: {key} is {NOT_A_FLAG}")
        near = difflib.get_close_matches(key, sorted(known), 1)
        raise ConfigurationError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


_WORDS = {str: "text", int: "a whole number", float: "a number", list: "a list of whole numbers", dict: "a mapping"}


def _fitted(value: Any, hint: Any, what: str) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in kinds and isinstance(value, str):  # YAML takes 5e-1 for text
        with suppress(ValueError):
            value = float(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    if not is_nan and any(_is(value, kind) for kind in kinds):
        return value
    words = next(_WORDS[get_origin(kind) or kind] for kind in kinds if kind is not NoneType)
    given = repr(value) if isinstance(value, int | float | list) else type(value).__name__  # text may be a secret
    raise ConfigurationError(f"{what} is {words}, not {given}")


def _is(value: Any, kind: Any) -> bool:
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is(item, *get_args(kind)) for item in value)
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else get_origin(kind) or kind)
