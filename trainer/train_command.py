"""`ors-train train`."""

from __future__ import annotations

from collections.abc import Sequence

HELP = """usage: ors-train train --config FILE [--KEY VALUE …] [--resume auto] [--debug]

Trains a model on environments with GRPO. Keys are those of TRL's GRPOConfig and ModelConfig, and these:
"""


def main(arguments: Sequence[str]) -> int:
    """Train as the command line says; the exit status."""
    words = [word for word in arguments if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(HELP + "\n".join(_own_keys()))
        return 0
    from trainer.callbacks import console
    from trainer.config import load
    from trainer.train import run

    return run(load(words), console())


def _own_keys() -> list[str]:
    from dataclasses import fields

    from trainer.config import EnvironmentConfig, RunArguments

    keys = [f"  --{f.name:<15} {f.metadata['help']}" for f in fields(RunArguments)]
    entries = ", ".join(f.name for f in fields(EnvironmentConfig))
    return [
        *keys,
        "",
        "The file's key environments is a list; an entry takes: " + entries,
        "",
        "example: ors-train train --url http://127.0.0.1:8000 --env_name echo --model_name_or_path starter \\",
        "             --max_steps 20 --per_device_train_batch_size 64 --output_dir runs/echo",
    ]
