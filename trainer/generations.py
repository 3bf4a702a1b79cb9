"""A generation that serves several steps, kept with a checkpoint that lies between them.

TRL generates anew after such a checkpoint, from a model that has learned in between: the resumed run would be another,
and what was played would be played twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device


def keep(checkpoint: Path, process: int, serves: Sequence[int], step: int, batches: Sequence[Any]) -> None:
    """Write down what a process has left of a generation.

    Args:
        checkpoint: The checkpoint's folder.
        process: Which process's it is.
        serves: The numbers that say how it is cut into batches; it goes with no others.
        step: The batches that it has served.
        batches: All that it was cut into.
    """
    torch.save({"serves": list(serves), "step": step, "batches": list(batches)}, _file(checkpoint, process))


def kept(
    checkpoint: Path, process: int, serves: Sequence[int], device: torch.device
) -> tuple[int, list[dict[str, Any]]] | None:
    """The step and the batches that `keep` wrote, None where it did not or where a generation is cut otherwise now."""
    file = _file(checkpoint, process)
    if not file.exists():
        return None
    told = torch.load(file, map_location="cpu", weights_only=True)
    return (told["step"], send_to_device(told["batches"], device)) if told["serves"] == list(serves) else None


def _file(checkpoint: Path, process: int) -> Path:
    return checkpoint / f"generation_{process}.pt"
