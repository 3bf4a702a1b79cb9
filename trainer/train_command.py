"""`ors-train train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from trainer.arguments import OF_AN_ENTRY, RunArguments

HELP = """usage: ors-train train --config FILE [--KEY VALUE ...] [--resume auto] [--debug]

Trains a model on environments with GRPO. Keys of the file, and flags, are all fields of TRL's GRPOConfig and
ModelConfig (model_name_or_path, output_dir, max_steps, learning_rate, ...), and these:
"""

EXAMPLE = """
example: ors-train train --url http://127.0.0.1:8000 --env_name echo --model_name_or_path starter \\
             --learning_rate 5e-4 --max_completion_length 48 --max_tool_calling_iterations 1 \\
             --max_steps 20 --per_device_train_batch_size 64 --output_dir runs/echo"""


def main(arguments: Sequence[str]) -> int:
    """Train as the command line says; the exit status."""
    if not arguments or any(word in ("-h", "--help") for word in arguments):
        print(describe())
        return 0
    from trainer.callbacks import console
    from trainer.config import load
    from trainer.train import run

    return run(load(without_debug(arguments)), console())


def describe() -> str:
    """The help text."""
    keys = [f"  --{f.name:<15} {f.metadata['help']}" for f in fields(RunArguments)]
    return "\n".join(
        [
            HELP + "\n".join(keys),
            f"  --{'debug':<15} Show a traceback when something goes wrong.",
            f"\nThe file's key environments is a list; an entry takes: {', '.join(OF_AN_ENTRY)}",
            EXAMPLE,
        ]
    )


def without_debug(arguments: Sequence[str]) -> list[str]:
    """The command line without a bare `--debug`; with a value it is TRL's, beside ours."""
    following = [*arguments[1:], "--"]
    return [
        word
        for word, after in zip(arguments, following, strict=True)
        if word != "--debug" or not after.startswith("--")
    ]
