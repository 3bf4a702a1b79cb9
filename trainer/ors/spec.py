"""OpenRewardSpec: one object that turns an ORS environment into the three slots of a TRL trainer."""

from __future__ import annotations

import copy
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainer.ors.endpoint import Endpoint, Secret
from trainer.ors.errors import ConfigurationError
from trainer.ors.rewards import Reduction, Reward

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.ors.rollout import Factory

Row = tuple[Mapping[str, Any], Mapping[str, Any]]
"""What the trainer needs of a task, by `ROW`, and the task's own fields as the server gave them."""

ROW = ("prompt", "task_index", "split", "environment")
TRL_COLUMNS = ("prompts", "completion", "completions", "completion_ids", "image", "images")
TRL_ARGUMENTS = ("environments", "trainer_state", "log_extra", "log_metric")
RESERVED = frozenset((*ROW, *TRL_COLUMNS, *TRL_ARGUMENTS))
"""Columns that mean something to the trainer. A task's own field of such a name becomes `task_<name>`."""


class OpenRewardSpec:
    """Ties an ORS environment to a TRL trainer: `train_dataset`, `environment_factory` and `reward_funcs`.

    Constructing one reaches no network and imports no SDK; the first use of a property does, and its answer is kept.
    A superset of `trl.experimental.openreward.OpenRewardSpec` (TRL 1.16), whose keywords come first.

    Args:
        target: A catalog name (`"owner/name"`) or the URL of any ORS server (anything with `://`). A URL serves
            everything from one host; `OPENREWARD_SESSION_URL` overrides it where the user has set that: all requests
            go there then, with the key, token, headers and secrets given here, and none to the target's own host.
        num_tasks: Take only the first so many tasks of the split.
        split: The split that tasks are taken from. It travels with every row.
        indices: Take these tasks. Excludes `num_tasks`.
        api_key: Key for this target. A catalog name falls back to `OPENREWARD_API_KEY`, which no URL is sent.
        secrets: Session secrets by name: a value, or a value and the domains it may be sent to.
        env_name: The environment on a server that hosts several; None takes the first. On the catalog, the variant.
        include_metadata: Put the fields of each task into its row.
        discover_task_tools: Open sessions to learn tools that depend on the task. False takes the common ones alone.
        task_tools_discovery_index: The one task to learn them from. By default eight of the tasks at `indices`, spread
            over them, or task 0.
        name: What the environment is called in rows, metrics and reports. By default its name on the server.
        reward: How the rewards of an episode become its score: `outcome` (the last), `sum`, `mean`, `max`, `min`.
        unfinished_reward: Score of an episode that ended without one through the model's doing. None: unscored.
        offer_reward: Give adapters a `get_reward`, for trainers that pass no environments to reward functions (TRL's
            AsyncGRPOTrainer). GRPOTrainer would then count the reward a second time, beside `reward_funcs`.
        headers: Further headers for every request, sent to the host that serves this target and to no other.
        hf_token: Token for a private Hugging Face Space: short for an `Authorization: Bearer` header.
        open_timeout: Seconds in which a session must be open, retries included.
        call_timeout: Seconds in which a tool call must have come back.
        keepalive: Seconds between two pings of an open session, sent whatever the process does meanwhile.
        max_concurrency: Openings and calls under way at once, and as many closings. None: as many as there are
            rollouts.

    Raises:
        ConfigurationError: (a ValueError) what was asked for cannot be done. On first use also where the server has no
            such environment, split or task; the message lists what it has.
        EnvironmentFailure: on first use, where the server does not answer.
        ImportError: on first use, where the openreward package is missing.
    """

    def __init__(
        self,
        target: str,
        *,
        num_tasks: int | None = None,
        split: str = "train",
        indices: Sequence[int] | None = None,
        api_key: str | None = None,
        secrets: Mapping[str, str | tuple[str, Sequence[str]]] | None = None,
        env_name: str | None = None,
        include_metadata: bool = True,
        discover_task_tools: bool = True,
        task_tools_discovery_index: int | None = None,
        name: str | None = None,
        reward: Reduction = "outcome",
        unfinished_reward: float | None = None,
        offer_reward: bool = False,
        headers: Mapping[str, str] | None = None,
        hf_token: str | None = None,
        open_timeout: float = 120.0,
        call_timeout: float = 600.0,
        keepalive: float = 15.0,
        max_concurrency: int | None = None,
    ) -> None:
        if num_tasks is not None and indices is not None:
            raise ConfigurationError("give num_tasks or indices, not both")
        if num_tasks is not None and _index(num_tasks, "num_tasks is a whole number") < 1:
            raise ConfigurationError(f"num_tasks is at least 1, not {num_tasks}")
        if indices is not None and len(indices) == 0:
            raise ConfigurationError("indices is empty: there would be nothing to train on")
        sent = dict(headers or {})
        if hf_token is not None:
            sent["Authorization"] = f"Bearer {hf_token.strip()}"
        self._endpoint = Endpoint(
            target,
            env_name,
            api_key.strip() if api_key is not None else None,
            tuple(sent.items()),
            tuple((key, _secret(value)) for key, value in (secrets or {}).items()),
            open_timeout,
            call_timeout,
            keepalive,
            max_concurrency,
        )
        self._num_tasks = num_tasks
        self._split = split
        self._indices = None if indices is None else [_index(i, "indices are whole numbers") for i in indices]
        self._include_metadata = include_metadata
        self._discover_task_tools = discover_task_tools
        self._probe = task_tools_discovery_index
        self._name = name
        self._reward = Reward(reward, unfinished_reward)
        self._offer_reward = offer_reward

    def __repr__(self) -> str:
        return (
            f"OpenRewardSpec({self._endpoint.address!r}, env_name={self._endpoint.env_name!r}, split={self._split!r})"
        )

    @property
    def split(self) -> str:
        """The split that tasks are taken from."""
        return self._split

    @property
    def address(self) -> str:
        """Where the environment is: its URL without a user name and password, or its name in the catalog."""
        return self._endpoint.address

    def of_split(self, split: str, num_tasks: int | None = None) -> OpenRewardSpec:
        """The same environment with the tasks of another split, all of them or the first so many."""
        other = self.named(self.name)
        vars(other).pop("_tasks", None)
        other._split, other._num_tasks, other._indices = split, num_tasks, None
        return other

    def named(self, name: str) -> OpenRewardSpec:
        """The same environment under another name in rows, metrics and reports."""
        other = copy.copy(self)
        for cached in ("name", "train_dataset", "environment_factory"):
            vars(other).pop(cached, None)
        other._name = name
        return other

    @cached_property
    def name(self) -> str:
        """What the environment is called in rows, metrics and reports."""
        if self._name is not None:
            return self._name
        if not self._endpoint.is_url:
            return self._endpoint.target
        from trainer.ors.loop import on_connection

        async def ask(connection: Any) -> str:
            return connection.variant or self._endpoint.env_name or "environment"

        return on_connection(self._endpoint, ask)

    @cached_property
    def train_dataset(self) -> Dataset:
        """A `datasets.Dataset` of the tasks asked for: `prompt` (an empty user message, which the environment's prompt
        is appended to), `task_index`, `split`, `environment`, and the fields of the task."""
        return as_dataset(self._rows())

    @cached_property
    def _tasks(self) -> list[tuple[int, Any]]:
        """The tasks asked for, each with its index."""
        from trainer.ors.discovery import read_tasks
        from trainer.ors.loop import on_connection

        return on_connection(
            self._endpoint,
            lambda connection: read_tasks(connection, self._split, count=self._num_tasks, indices=self._indices),
        )

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        for index, task in self._tasks:
            prompt = [{"role": "user", "content": ""}]
            own = {"prompt": prompt, "task_index": index, "split": self._split, "environment": self.name}
            fields = task if isinstance(task, dict) else {"task": task}
            rows.append((own, fields if self._include_metadata else {}))
        return rows

    @cached_property
    def environment_factory(self) -> Factory:
        """A callable without arguments that makes a fresh adapter for one rollout. Picklable."""
        from trainer.ors.discovery import read_tools
        from trainer.ors.loop import on_connection
        from trainer.ors.rollout import Factory, Plan

        probe: Collection[int] = ()
        if self._discover_task_tools:
            probe = [self._probe] if self._probe is not None else sorted(set(self._indices or [0]))
        tools = on_connection(self._endpoint, lambda connection: read_tools(connection, self._split, list(probe)))
        plan = Plan(self.name, self._endpoint, self._split, tuple(tools), self._reward, self._offer_reward)
        return Factory(plan)

    @property
    def reward_funcs(self) -> Reward:
        """The reward function: an episode's score, or None where it has none. See `trainer.ors.rewards.Reward`."""
        return self._reward


def as_dataset(rows: Sequence[Row]) -> Dataset:
    """A table of tasks, which may be of several environments: a field that some do not have is None in their rows."""
    from datasets import Dataset

    own: dict[str, Any] = {key: [row[key] for row, _ in rows] for key in ROW}
    return Dataset.from_dict(own | metadata_columns([fields for _, fields in rows]))


def metadata_columns(tasks: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns for the fields of tasks. A column that Arrow would not give back as it is (mixed types, objects with
    different keys, numbers too large) is kept as JSON text, None staying None."""
    keys = set(_keys(tasks))
    columns: dict[str, list[Any]] = {}
    for key in sorted(keys, key=lambda key: (key in RESERVED, key)):
        values = [task.get(key) for task in tasks]
        # What JSON can carry and Arrow cannot: half a surrogate pair, a zero byte.
        name = key.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
        while name in RESERVED or name in columns:
            name = f"task_{name}"
        columns[name] = values if _survives_arrow(values) else [_json(value) for value in values]
    return columns


def _keys(tasks: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for task in tasks:
        yield from task


def _survives_arrow(values: list[Any]) -> bool:
    import pyarrow as pa

    try:
        array = pa.array(values)
        return not _is_awkward(array.type) and bool(array.to_pylist() == values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError, TypeError):
        return False


def _is_awkward(kind: Any) -> bool:
    """Whether a type has a part that `datasets` loses: an object without keys, a key with a zero byte."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return not fields or any("\0" in field.name or _is_awkward(field.type) for field in fields)
    return bool(pa.types.is_list(kind)) and _is_awkward(kind.value_type)


def _json(value: Any) -> str | None:
    import json

    return None if value is None else json.dumps(value)


def _secret(value: str | tuple[str, Sequence[str]]) -> Secret:
    if isinstance(value, str):
        return value
    secret, domains = value
    return secret, (domains,) if isinstance(domains, str) else tuple(domains)


def _index(value: Any, rule: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigurationError(f"{rule}, not {value!r}") from None
