"""The model of a run: any that TRL can load and whose chat template can call tools, or the demo's starter."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.config import STARTER, Config
from trainer.ors.errors import ConfigurationError

if TYPE_CHECKING:
    from trainer.ors.rollout import Factory
    from trainer.starter import Lesson


def load(
    config: Config, factories: Mapping[str, Factory], tasks: Sequence[dict[str, Any]], say: Callable[[str], None]
) -> Any:
    """A model and its tokenizer.

    Args:
        config: Names the model: a folder, a hub name, or `starter`.
        factories: The run's environments by name; the starter learns the wording of one of them.
        tasks: Rows of all their tasks, held-out ones too: the starter is shown none of them.
        say: Told what is going on, a line each time.

    Raises:
        ConfigurationError: there is no such model, its chat template cannot call tools, or no environment of the run is
            one that the starter can learn.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import get_kbit_device_map, get_quantization_config
    from trl.chat_template_utils import supports_tool_calling

    name = str(config.model.model_name_or_path)
    path = str(_starter(config, factories, tasks, say)) if name == STARTER else name
    revision = config.model.model_revision
    trusts = config.model.trust_remote_code
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            path, revision=revision, trust_remote_code=trusts, padding_side="left"
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"model {name!r}: {_first_line(error)}") from error
    if not getattr(tokenizer, "chat_template", None) or not supports_tool_calling(tokenizer):
        raise ConfigurationError(
            f"model {name!r}: its chat template cannot call tools, so it cannot act in environments"
        )
    settings = dict(config.grpo.model_init_kwargs or {})
    settings.setdefault("revision", revision)
    settings.setdefault("trust_remote_code", trusts)
    settings.setdefault("dtype", config.model.dtype or "float32")
    if config.model.attn_implementation is not None:
        settings.setdefault("attn_implementation", config.model.attn_implementation)
    quantization = get_quantization_config(config.model)
    if quantization is not None:
        settings |= {"device_map": get_kbit_device_map(), "quantization_config": quantization}
    config.grpo.model_init_kwargs = None
    try:
        return AutoModelForCausalLM.from_pretrained(path, **settings), tokenizer
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"model {name!r}: {_first_line(error)}") from error


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
    tools = [tool for tool in rollout._tools if tool.spec.input_schema]
    if len(tools) != 1 or not rows:
        return None
    properties = (tools[0].spec.input_schema or {}).get("properties") or {}
    if [value.get("type") for value in properties.values()] != ["string"]:
        return None
    argument, call = next(iter(properties)), getattr(rollout, tools[0].attribute)
    prompt = rollout.reset(**rows[0])
    fields = [key for key, value in rows[0].items() if isinstance(value, str) and prompt.count(value) == 1]
    for key in fields:
        wrong = call(**{argument: f"{rows[0][key]}-"})
        right = call(**{argument: rows[0][key]})
        won = rollout.reward is not None and rollout.reward > 0
        rollout._close()
        if won:
            wording = prompt.replace(rows[0][key], TARGET)
            lesson = Lesson(tools[0].attribute, argument, wording, right, wrong, rollout._schemas)
            return lesson, [str(row[key]) for row in rows]
        rollout.reset(**rows[0])
    rollout._close()
    return None


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
