"""`ors-train eval`: how well a model does on a split."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer.ors.errors import ConfigurationError


def parser() -> argparse.ArgumentParser:
    """The flags of `eval`."""
    flags = argparse.ArgumentParser(
        prog="ors-train eval",
        description="Plays the tasks of a split with a model: success rate with a 95 % interval, sampled and greedy.",
        epilog="example: ors-train eval --model runs/demo/model --url http://127.0.0.1:8000 --env_name echo",
    )
    flags.add_argument("--model", required=True, help="a folder or a hub name")
    where = flags.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="URL of an ORS server")
    where.add_argument("--config", help="a file of ors-train train: its environments and generation settings")
    flags.add_argument("--env_name", help="the environment on a server that hosts several")
    flags.add_argument("--split", default="test", help="the split to play (default test)")
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
    flags.add_argument("--debug", action="store_true", help="tracebacks")
    return flags


def main(arguments: Sequence[str]) -> int:
    """Evaluate, print a line, and write JSON where asked."""
    flags = parser().parse_args(arguments)
    if flags.rollouts < 1:
        raise ConfigurationError(f"--rollouts is at least 1, not {flags.rollouts}")
    from trainer.callbacks import console
    from trainer.config import load
    from trainer.evaluate import evaluate
    from trainer.ors import loop
    from trainer.train import build, environments, summary

    with tempfile.TemporaryDirectory() as scratch:
        given = {
            "output_dir": scratch,
            "model_name_or_path": flags.model,
            "per_device_eval_batch_size": flags.batch,
            "per_device_train_batch_size": flags.batch,
            "num_generations": flags.batch,
        }
        for key in ("temperature", "max_completion_length", "max_tool_calling_iterations"):
            if getattr(flags, key) is not None:
                given[key] = getattr(flags, key)
        words = ["--config", flags.config] if flags.config else ["--url", flags.url]
        words += ["--env_name", flags.env_name] if flags.env_name else []
        config = load(words, given, overrides=given)
        entries = [replace(e, split=flags.split, num_tasks=flags.num_tasks, weight=None) for e in config.environments]
        config = replace(config, environments=entries)
        screen = console()
        try:
            found = environments(config)
            trainer = build(config, found, flags.rollouts_file, screen.print)
            result = evaluate(
                trainer,
                found.train_dataset,
                rollouts_per_task=flags.rollouts,
                success_at=flags.success_at,
                seed=flags.seed,
            )
        finally:
            loop.close_all()
    print(f"{flags.model} on {result['split']}: {summary(result)}")
    if flags.json is not None:
        flags.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0
