"""A run's environments: which tasks it trains and is evaluated on, where entries share some."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import free_port
from trainer.arguments import EnvironmentConfig
from trainer.config import load
from trainer.environments import HeldOut, environments, held_out
from trainer.ors.errors import EnvironmentFailure

MODEL = ("--model_name_or_path", "some/model")


def asked(*entries: dict[str, Any], **run: Any) -> list[HeldOut]:
    listed = [EnvironmentConfig(**{"url": "http://h:1", **entry}) for entry in entries]
    return held_out(load(MODEL, run, entries=listed))


def test_tasks_that_entries_share_are_played_once() -> None:
    parts = ({"label": "a", "indices": [0]}, {"label": "b", "url": "http://h:1/", "weight": 2.0, "reward": "sum"})
    assert asked(*parts, eval_split="test") == [HeldOut(0, "test", None)]
    assert asked(*parts) == []


def test_of_two_numbers_of_tasks_the_larger_holds_and_all_are_more_than_any() -> None:
    two, three, every = {"eval_tasks": 2}, {"eval_tasks": 3}, {"eval_tasks": None}
    assert asked(two, three, eval_split="test") == [HeldOut(0, "test", 3)]
    assert asked(three, two, eval_split="test") == [HeldOut(0, "test", 3)]
    assert asked(two, every, eval_split="test") == asked(every, two, eval_split="test") == [HeldOut(0, "test", None)]
    assert asked(two, every, eval_split="test", eval_tasks=5) == [HeldOut(0, "test", 5)]


def test_other_splits_environments_and_servers_are_others() -> None:
    others = ({}, {"eval_split": "dev"}, {"env_name": "b"}, {"url": "http://h:2"})
    assert [part.at for part in asked(*others, eval_split="test")] == [0, 1, 2, 3]


def test_rows_of_a_run_have_each_held_out_task_once(gym: str) -> None:
    parts = [EnvironmentConfig(url=gym, env_name="gym", label=name, indices=[at]) for at, name in enumerate("ab")]
    rows = environments(load(MODEL, {"eval_split": "test"}, entries=parts)).eval_dataset
    assert rows is not None
    assert sorted((row["environment"], row["task_index"]) for row in rows) == [("a", 0), ("a", 1), ("a", 2)]


@pytest.mark.parametrize("named", [{}, {"label": "mine"}])
def test_an_environment_that_is_not_up_yet_is_waited_for_whatever_it_is_called(named: dict[str, str]) -> None:
    down = EnvironmentConfig(url=f"http://127.0.0.1:{free_port()}", **named)
    with pytest.raises(EnvironmentFailure, match=r"waited 0\.2 s for it"):
        environments(load(MODEL, {"wait": 0.2}, entries=[down]))


def test_the_size_of_an_epoch_holds_for_one_environment_too(gym: str) -> None:
    only = [EnvironmentConfig(url=gym, env_name="gym")]
    assert len(environments(load(MODEL, {"mixture_size": 20}, entries=only)).train_dataset) == 20
    assert len(environments(load(MODEL, entries=only)).train_dataset) == 6
