"""`ors-train inspect URL`: what an environment offers, as a model would see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from trainer.flags import Flags
from trainer.ors.notes import parameter_parts
from trainer.ors.schemas import SchemaReader
from trainer.report_text import readable
from trainer.variables import check_by_variable, check_url, filled, filled_url

SHOWN = 600  # characters of a prompt or a schema


def parser() -> Flags:
    """The flags of `inspect`."""
    flags = Flags(
        prog="ors-train inspect",
        description="Shows an environment's splits, tasks, tools as the model will see them, and one prompt.",
        epilog="example: ors-train inspect http://127.0.0.1:8000 --env_name echo --split test",
    )
    flags.add_argument("url", help="URL of an ORS server, or a name in the catalog")
    flags.add_argument("--env_name", help="the environment on a server that hosts several")
    flags.add_argument("--split", help="the split to look into (default: the first)")
    flags.add_argument("--task", type=int, default=0, help="the task whose prompt is shown (default 0)")
    flags.add_argument("--model", help="a folder or hub name: show the prompt as this model's chat template renders it")
    for key, what in (("api_key", "the server's key"), ("hf_token", "the token for a private Hugging Face Space")):
        flags.add_argument(f"--{key}", help=f"{what}, by its variable and in quotes: '${{VARIABLE}}'")
    flags.add_argument("--json", action="store_true", help="print everything as JSON")
    return flags


def main(arguments: Sequence[str]) -> int:
    """Print what the environment offers."""
    flags = parser().parse_args(arguments)
    from trainer.ors.loop import close_all

    check_url(flags.url)
    try:
        keys = {key: _by_variable(f"--{key}", getattr(flags, key)) for key in ("api_key", "hf_token")}
        found = look(filled_url(flags.url), flags.env_name, flags.split, flags.task, flags.model, **keys)
    finally:
        close_all()
    print(json.dumps(found, indent=2) if flags.json else readable(describe(found)))
    return 0


def _by_variable(flag: str, given: str | None) -> str | None:
    check_by_variable(flag, given)
    return None if given is None else filled(given, flag)


def look(
    url: str, env_name: str | None, split: str | None, task: int, model: str | None = None, **keys: str | None
) -> dict[str, Any]:
    """Splits with their number of tasks, one task, the tools as the model sees them, and its prompt.

    `keys` are `api_key` and `hf_token` as of OpenRewardSpec.

    Raises:
        ConfigurationError: no such environment, split, task or model.
        EnvironmentFailure: the server does not answer, or the task's session cannot be opened.
    """
    from trainer.ors.discovery import read_splits
    from trainer.ors.errors import ConfigurationError
    from trainer.ors.loop import on_connection
    from trainer.ors.spec import OpenRewardSpec

    reached: dict[str, Any] = {"env_name": env_name, **keys}
    spec = OpenRewardSpec(url, **reached)
    sizes = on_connection(spec._endpoint, read_splits)
    if not sizes:
        raise ConfigurationError(f"{spec.name} at {spec.address} has no splits")
    chosen = split or next(iter(sizes))
    spec = OpenRewardSpec(url, split=chosen, indices=[task], **reached)
    row = spec.train_dataset[0]
    rollout = spec.environment_factory()
    prompt = rollout.reset(**row)
    if rollout.failure is not None:
        raise rollout.failure
    schemas = rollout._schemas
    found = {
        "environment": spec.name,
        "address": spec.address,
        "splits": sizes,
        "split": chosen,
        "task": {key: value for key, value in row.items() if key != "prompt"},
        "tools": [schema["function"] for schema in schemas],
        "prompt": prompt,
    }
    if model is not None:
        from trainer.models import load_tokenizer

        chat = [{"role": "user", "content": prompt}]
        found["rendered"] = load_tokenizer(model).apply_chat_template(
            chat, tools=schemas, add_generation_prompt=True, tokenize=False
        )
    return found


def describe(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{found['environment']} at {found['address']}", ""]
    lines += [f"  {name:<12} {size:>7} tasks" for name, size in found["splits"].items()]
    for tool in found["tools"]:
        lines += ["", f"tool {tool['name']}: {tool['description'].strip()}"]
        properties, required = SchemaReader(tool["parameters"]).members(tool["parameters"])
        for name, schema in properties.items():
            description, (kind, *bounds) = parameter_parts(schema, tool["parameters"])
            details = "; ".join([kind, *([] if name in required else ["optional"]), *bounds])
            lines.append(f"  {name} ({details})" + (f": {description}" if description else ""))
    task = json.dumps({key: value for key, value in found["task"].items() if key not in ("split", "environment")})
    lines += ["", f"task of {found['split']}: {_cut(task)}", "", "prompt:", _indent(_cut(found["prompt"]))]
    if "rendered" in found:
        lines += ["", "as the model reads it:", _indent(found["rendered"])]
    return "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… [{len(text) - SHOWN} characters more]"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
