"""A run that is taken up again from a checkpoint, beside the one that was never interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import serve
from tests.trainer.commands import Command, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the model may have to be made, or waited for


@pytest.fixture
def echo() -> Iterator[str]:
    with serve("echo") as url:
        yield url


def test_the_steps_after_a_checkpoint_are_the_same_to_the_last_digit(
    ors_train: Command, echo_starter: Path, echo: str, tmp_path: Path
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    words = (
        "train",
        *("--url", echo, "--env_name", "echo", "--model_name_or_path", echo_starter, "--seed", 0),
        *("--per_device_train_batch_size", 16, "--num_generations", 4, "--max_completion_length", 48),
        *("--max_tool_calling_iterations", 1, "--learning_rate", 5e-4, "--max_steps", 6, "--save_steps", 3),
    )
    said = ors_train(*words, "--output_dir", whole)
    assert said.status == 0, said.err
    shutil.copytree(whole, resumed)
    said = ors_train(*words, "--output_dir", resumed, "--resume", resumed / "checkpoint-3")
    assert said.status == 0, said.err
    assert "going on from step 3" in said.err
    same = ("step", "reward", "reward_std", "loss", "grad_norm", "entropy", "num_tokens", "learning_rate")
    first, second = (
        [{key: row[key] for key in same} for row in rows(run / "metrics.jsonl")] for run in (whole, resumed)
    )
    assert [row["step"] for row in first] == [1, 2, 3, 4, 5, 6]
    assert any(row["grad_norm"] for row in first[3:])  # there was something to learn from
    assert second == first
    said_by_model = [[row["completion"] for row in rows(run / "rollouts.jsonl")] for run in (whole, resumed)]
    assert said_by_model[0] == said_by_model[1]
    assert len(rows(resumed / "rollouts.before-resume.jsonl")) == 3 * 16
