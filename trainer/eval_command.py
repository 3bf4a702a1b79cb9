"""`ors-train eval`: how well a model does on a split."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.arguments import NOT_A_FLAG, OF_AN_ENTRY
from trainer.flags import Flags
from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.values import check_bounds

if TYPE_CHECKING:
    from trainer.config import Config


def parser() -> Flags:
    """The flags of `eval`."""
    flags = Flags(
        prog="ors-train eval",
        description="Plays the tasks of a split with a model: success rate with a 95 % interval, sampled and greedy.",
        epilog="example: ors-train eval --model runs/demo/model --url http://127.0.0.1:8000 --env_name echo",
        elsewhere=dict.fromkeys(OF_AN_ENTRY, NOT_A_FLAG),
    )
    flags.add_argument("--model", required=True, help="a folder or a hub name")
    where = flags.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="URL of an ORS server")
    where.add_argument("--config", help="a file of ors-train train: its environments and generation settings")
    flags.add_argument("--env_name", help="the environment on a server that hosts several")
    flags.add_argument("--split", help="the split to play (default: what the file says to evaluate on, or test)")
    flags.add_argument("--num_tasks", type=int, help="play only the first so many tasks")
    flags.add_argument("--rollouts", type=int, default=4, help="sampled rollouts of each task (default 4)")
    flags.add_argument(
        "--success_at", type=float, default=1.0, help="the score from which on it is a success (default 1)"
    )
    flags.add_argument("--seed", type=int, default=0, help="of the sampling (default 0)")
    flags.add_argument("--batch", type=int, default=32, help="rollouts at once (default 32)")
    flags.add_argument("--temperature", type=float, help="of the sampling (default 1)")
    flags.add_argument("--max_completion_length", type=int, help="tokens of an episode, tool results included")
    flags.add_argument("--max_tool_calling_iterations", type=int, help="turns with tool calls")
    flags.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    flags.add_argument("--rollouts_file", type=Path, metavar="FILE", help="append every rollout as a line of JSON")
    return flags


def main(arguments: Sequence[str]) -> int:
    """Evaluate, print a line, and write JSON where asked."""
    flags = parser().parse_args(arguments)
    for key in ("rollouts", "batch", "num_tasks"):
        value = getattr(flags, key)
        if value is not None and value < 1:
            raise ConfigurationError(f"--{key} is at least 1, not {value}")
    for key in ("json", "rollouts_file"):
        _check_writable(f"--{key}", getattr(flags, key))
    check_bounds("seed", flags.seed, "--seed")
    from trainer.callbacks import console, evaluation_progress
    from trainer.environments import environments
    from trainer.evaluate import evaluate, summary
    from trainer.ors import loop
    from trainer.train import build

    screen = console()
    with tempfile.TemporaryDirectory() as scratch:
        config = _config(flags, scratch)
        try:
            found = environments(config)
            trainer = build(config, found, flags.rollouts_file, screen.print)
            result = evaluate(
                trainer,
                found.train_dataset,
                rollouts_per_task=flags.rollouts,
                success_at=config.run.success_at,
                seed=flags.seed,
                progress=evaluation_progress(screen.print),
            )
            try:  # what cannot be shown is still written, and the other way round
                print(f"{flags.model} on {result['split']}: {summary(result)}", flush=True)
            finally:
                _write(flags.json, result)
            loop.probe().result()  # the last batch may have been of broken tasks alone, and the environment be there
            away = loop.outages()
        finally:
            loop.close_all()
    if away:
        raise EnvironmentFailure("unreachable", f"the evaluation is not whole: {away[0].last_error}")
    return 0


def _write(path: Path | None, result: object) -> None:
    if path is None:
        return
    try:
        path.write_text(json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise ConfigurationError(f"--json {path} could not be written: {error.strerror}") from error


def _config(flags: Any, scratch: str) -> Config:
    from trainer.config import load
    from trainer.environments import held_out

    given = {
        "output_dir": scratch,
        "model_name_or_path": flags.model,
        "per_device_eval_batch_size": flags.batch,
        "success_at": flags.success_at,
        **_NO_TRAINING,
    }
    for key in ("temperature", "max_completion_length", "max_tool_calling_iterations"):
        if getattr(flags, key) is not None:
            given[key] = getattr(flags, key)
    words = ["--config", flags.config] if flags.config else ["--url", flags.url]
    words += ["--env_name", flags.env_name] if flags.env_name else []
    config = load(words, overrides=given)
    run = config.run
    asked = [
        replace(
            entry,
            eval_split=flags.split or entry.eval_split or run.eval_split or "test",
            eval_tasks=flags.num_tasks or (None if flags.split else entry.eval_tasks or run.eval_tasks),
        )
        for entry in config.environments
    ]
    config = replace(config, environments=asked, run=replace(run, eval_split=None, eval_tasks=None))
    of_training: dict[str, Any] = {"indices": None, "weight": None, "eval_split": None}
    played = [
        replace(asked[part.at], split=part.split, num_tasks=part.num_tasks, **of_training) for part in held_out(config)
    ]
    return replace(config, environments=played)


# A file of a training run may say anything of these; nothing of it must matter here.
_NO_TRAINING: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "num_generations": 2,
    "gradient_accumulation_steps": 1,
    "generation_batch_size": None,
    "steps_per_generation": None,
    "eval_strategy": "no",
    "eval_on_start": False,
    "do_eval": False,
    "save_strategy": "no",
    "load_best_model_at_end": False,
    "push_to_hub": False,
    "max_steps": -1,
    "num_train_epochs": 1,
    "mixture_size": None,
    "beta": 0.0,
    "report_to": "none",
}


def _check_writable(flag: str, path: Path | None) -> None:
    """An evaluation can take hours: that its result has nowhere to go is said before. Permissions do not tell: a folder
    of the system's, or one that is mounted read-only, takes no file from anybody."""
    if path is None:
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        new = not path.exists()
        if new or path.is_file():  # a pipe's reader would take the end of this for the end of all
            path.open("ab").close()
        if new:
            path.unlink()
    except OSError as error:
        raise ConfigurationError(f"{flag} {path} cannot be written: {error.strerror}") from error
