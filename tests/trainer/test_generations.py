"""A run that is resumed from a checkpoint between the steps of one generation, beside the one that went on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.scripted import arguments, model, tokenizer
from tests.servers import serve_script
from tests.trainer.playing import SERVER, Play, rollouts_of
from trainer import EnvGRPOTrainer, generations

pytestmark = pytest.mark.slow

SAME = ("step", "loss", "grad_norm", "entropy", "reward", "num_tokens")


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    with serve_script(SERVER) as url, closing(Play(url)) as server:
        yield server


def sevens(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(sum(ids) % 7) for ids in completion_ids]


def trained(play: Play, folder: Path, checkpoint: Path | None, **settings: Any) -> list[dict[str, Any]]:
    """Train for six steps, or those after a checkpoint; what was logged."""
    torch.manual_seed(0)
    spec = play.spec(num_tasks=40)
    folder.mkdir()
    kept = {"save_strategy": "steps", "save_steps": 3, "max_completion_length": 12, "learning_rate": 1e-3}
    made = EnvGRPOTrainer(
        model=model(),
        processing_class=tokenizer(),
        args=arguments(folder, 4, max_steps=6, **kept, **settings),
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=[spec.reward_funcs, sevens],
        rollout_log=folder / "rollouts.jsonl",
    )
    made.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    return [{key: row.get(key) for key in SAME} for row in made.state.log_history if "loss" in row]


@pytest.mark.parametrize(
    ("settings", "generated"),
    [({"steps_per_generation": 4}, {1, 5}), ({"num_iterations": 2}, {1, 3, 5})],
    ids=["steps", "iterations"],
)
def test_a_generation_serves_the_steps_after_a_checkpoint_too(
    play: Play, tmp_path: Path, settings: dict[str, int], generated: set[int]
) -> None:
    logged = trained(play, tmp_path / "whole", None, **settings)
    assert any(row["grad_norm"] for row in logged[3:])  # there was something to learn from
    again = trained(play, tmp_path / "resumed", tmp_path / "whole" / "checkpoint-3", **settings)
    assert again == logged
    lines = rollouts_of(tmp_path / "whole")
    assert {line["step"] for line in lines} == generated
    later = [(line["step"], line["task_index"], line["completion"]) for line in lines if line["step"] > 3]
    resumed = rollouts_of(tmp_path / "resumed")
    assert [(line["step"], line["task_index"], line["completion"]) for line in resumed] == later
    # A checkpoint that no step of the same generation follows needs none of it.
    kept = sorted(file.parent.name for file in (tmp_path / "whole").glob("checkpoint-*/generation_0.pt"))
    assert kept == (["checkpoint-3", "checkpoint-6"] if "steps_per_generation" in settings else ["checkpoint-3"])


def test_a_generation_that_is_cut_otherwise_now_is_not_taken(tmp_path: Path) -> None:
    cpu = torch.device("cpu", 0)  # as a process of a distributed run has it
    assert generations.kept(tmp_path, 0, (1, 4), cpu) is None
    generations.keep(tmp_path, 0, (1, 4), 3, [{"ids": torch.tensor([7]), "images": None}])
    assert generations.kept(tmp_path, 0, (1, 4), cpu) == (3, [{"ids": torch.tensor([7]), "images": None}])
    assert generations.kept(tmp_path, 0, (2, 4), cpu) is None
    assert generations.kept(tmp_path, 1, (1, 4), cpu) is None
