"""The model of a run: any that TRL can load and whose chat template can call tools, or the demo's starter."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.config import STARTER, Config
from trainer.ors.errors import ConfigurationError
from trainer.ors.schemas import SchemaReader, types
from trainer.report_text import without_userinfo
from trainer.variables import filled_deep

if TYPE_CHECKING:
    from trainer.ors.rollout import Factory
    from trainer.starter import Lesson

HUB_SECONDS = 10.0  # to answer in that it is there
OF_A_MODEL = ("config.json", "adapter_config.json", "tokenizer_config.json")
"""A folder with none of these is no model, no adapter of one and no tokenizer."""


def load(
    config: Config, factories: Mapping[str, Factory], tasks: Sequence[dict[str, Any]], say: Callable[[str], None]
) -> tuple[str, Any]:
    """Where TRL loads the model from, and its tokenizer. Sets the arguments that TRL loads it with.

    Args:
        config: Names the model: a folder, a hub name, or `starter`.
        factories: The run's environments by name; the starter learns the wording of one of them.
        tasks: Rows of all their tasks, held-out ones too: the starter is shown none of them.
        say: Told what is going on, a line each time.

    Raises:
        ConfigurationError: there is no such model, its chat template cannot call tools, or no environment of the run is
            one that the starter can learn.
    """
    name = str(config.model.model_name_or_path)
    path = str(_starter(config, factories, tasks, say)) if name == STARTER else name
    where = {"revision": config.model.model_revision, "trust_remote_code": config.grpo.trust_remote_code}
    given = filled_deep(config.grpo.model_init_kwargs or {}, "model_init_kwargs")
    tokenizer = load_tokenizer(path, **where, **{key: given[key] for key in ("token",) if key in given})
    settings = {"attn_implementation": config.model.attn_implementation, "dtype": config.model.dtype, **where}
    config.grpo.model_init_kwargs = {**settings, **given}
    return path, tokenizer


def load_tokenizer(name: str, **where: Any) -> Any:
    """The tokenizer of a model. Raises ConfigurationError where there is none, or its template cannot call tools."""
    from transformers import AutoTokenizer
    from trl.chat_template_utils import supports_tool_calling

    if not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise ConfigurationError(f"model {name!r}: there is no such folder")
    if not (Path(name) / "config.json").exists() and (Path(name) / "model").is_dir():
        raise ConfigurationError(f"model {name!r}: that is a run's folder; its model is {Path(name) / 'model'}")
    if Path(name).is_dir() and not any((Path(name) / file).exists() for file in OF_A_MODEL):
        raise ConfigurationError(f"model {name!r}: that is no model's folder; it has no {OF_A_MODEL[0]}")
    try:
        if not Path(name).is_dir():
            _check_hub(name, where.get("revision"))
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left", **where)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"model {name!r}: {_said(error)}") from error
    if not getattr(tokenizer, "chat_template", None) or not supports_tool_calling(tokenizer):
        raise ConfigurationError(
            f"model {name!r}: its chat template cannot call tools, so it cannot act in environments"
        )
    return tokenizer


def _check_hub(name: str, revision: str | None) -> None:
    """Ask the hub once whether it is there, where the model is not here already: its own client repeats the question of
    each file, a minute in all. Raises OSError where it does not answer."""
    from huggingface_hub import constants, get_session, is_offline_mode, try_to_load_from_cache

    if is_offline_mode() or isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception as error:  # of whichever HTTP library this release of the hub's client has
        hub = without_userinfo(constants.ENDPOINT)
        raise OSError(f"there is no such folder, and the hub at {hub} does not answer: {error}") from error


def cache() -> Path:
    """Where the starter is kept: `ORS_CACHE`, or a folder under the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("ORS_CACHE") or f"{base}/ors-stack").expanduser()


def _starter(
    config: Config, factories: Mapping[str, Factory], tasks: Sequence[dict[str, Any]], say: Callable[[str], None]
) -> Path:
    from trainer.starter import starter

    for name, factory in factories.items():
        rows = [row for row in tasks if row["environment"] == name]
        found = _lesson(factory, rows)
        if found is not None:
            lesson, targets = found
            return starter(lesson, seed=config.grpo.seed, avoid=targets, cache=cache(), progress=say)
    raise ConfigurationError(
        "the starter model learns environments with one tool of one text argument, whose prompt names the text to "
        "give; none of these is one: name another model with --model_name_or_path"
    )


def _lesson(factory: Factory, rows: list[dict[str, Any]]) -> tuple[Lesson, list[str]] | None:
    """How an environment words its tasks and results, learned from an episode, and the texts that tasks ask for."""
    from trainer.warm_start import TARGET, Lesson

    rollout = factory()
    readers = [(tool, SchemaReader(tool.spec.input_schema)) for tool in rollout._tools]
    taking = [(tool, reader, found) for tool, reader in readers if (found := reader.members(tool.spec.input_schema)[0])]
    if len(taking) != 1 or not rows:
        return None
    tool, reader, properties = taking[0]
    if [types(reader.resolve(schema)) for schema in properties.values()] != [["string"]]:
        return None
    argument, call = next(iter(properties)), getattr(rollout, tool.attribute)
    prompt = rollout.reset(**rows[0])
    if rollout.failure is not None:
        raise rollout.failure
    fields = [key for key, value in rows[0].items() if isinstance(value, str) and prompt.count(value) == 1]
    for key in fields:
        wrong = call(**{argument: f"{rows[0][key]}-"})
        right = call(**{argument: rows[0][key]})
        won = rollout.reward is not None and rollout.reward > 0
        rollout._close()
        if won:
            wording = prompt.replace(rows[0][key], TARGET)
            lesson = Lesson(tool.attribute, argument, wording, right, wrong, rollout._schemas)
            return lesson, [str(row[key]) for row in rows]
        rollout.reset(**rows[0])
    rollout._close()
    return None


def _said(error: BaseException) -> str:
    """A library's error in a line: its first, or all of them where the first only announces the others."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines) if lines[0].endswith(":") else lines[0]
