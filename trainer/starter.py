"""The demo's model, built on the spot: for machines that reach no model hub.

It has the architecture of Qwen3 with 0.4 million parameters, knows one chat format and one tool, and can do nothing but
call that tool with a word. What it is good for is to show a complete training run in minutes on a CPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainer.starter_tokenizer import CONTEXT, build_tokenizer
from trainer.warm_start import SCHEDULE, Lesson, Phase, warm_start

__all__ = ["Lesson", "starter"]

_VERSION = 2  # raised with every change to the recipe that the cache key does not see
_DECIDING = ("torch", "transformers", "tokenizers", "trl")  # packages whose version decides the result
_MANIFEST = "starter.json"


def _silent(line: str) -> None:
    pass


def starter(
    lesson: Lesson,
    *,
    seed: int = 0,
    avoid: Collection[str] = (),
    cache: Path,
    progress: Callable[[str], None] = _silent,
    schedule: Sequence[Phase] = SCHEDULE,
) -> Path:
    """Return a folder with a model and its tokenizer, in the layout that `from_pretrained` reads.

    The first call takes about a minute on one core; later calls with the same arguments find its result in the cache. A
    cached folder that was damaged is built again. The caller's random state, thread count and default type stay as they
    are.

    Args:
        lesson: The wording of the environment.
        seed: Decides the weights and the chats they are trained on.
        avoid: Words never shown in the warm start: the environment's targets, of every split.
        cache: Folder to keep the results in; made if there is none.
        progress: Called with one line for people at a time.
        schedule: The phases of the warm start.

    Raises:
        ValueError: The lesson leaves no room in the model's context.
        OSError: The cache cannot be written.
    """
    recipe = _recipe(lesson, seed, avoid, schedule)
    folder = cache / f"starter-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if _whole(folder):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache, prefix=".starter-") as scratch:
        built = Path(scratch) / folder.name
        _build(built, lesson, seed, avoid, schedule, progress)
        manifest = {"recipe": json.loads(recipe), "files": _digests(built)}
        (built / _MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        if not _whole(folder):  # another process may have finished the same one meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(built, folder)
    return folder


def _recipe(lesson: Lesson, seed: int, avoid: Collection[str], schedule: Sequence[Phase]) -> str:
    parts = {
        "recipe": _VERSION,
        "packages": {package: version(package) for package in _DECIDING},
        "lesson": asdict(lesson),
        "seed": seed,
        "schedule": [asdict(phase) for phase in schedule],
        "avoid": sorted(set(avoid)),
    }
    return json.dumps(parts)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.name != _MANIFEST)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _whole(folder: Path) -> bool:
    try:
        recorded = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(recorded == _digests(folder))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _build(
    folder: Path,
    lesson: Lesson,
    seed: int,
    avoid: Collection[str],
    schedule: Sequence[Phase],
    progress: Callable[[str], None],
) -> None:
    import torch
    from transformers.utils import logging

    tokenizer = build_tokenizer(lesson)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _untrained(tokenizer)
        warm_start(model, tokenizer, lesson, seed=seed, avoid=avoid, schedule=schedule, progress=progress)
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    finally:
        if bars:
            logging.enable_progress_bar()


def _untrained(tokenizer: Any) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config).to(torch.float32)
