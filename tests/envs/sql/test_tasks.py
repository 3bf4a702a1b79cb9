"""Splits are fixed, disjoint and reproducible, and a task is found without building the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter

import pytest

from envs.sql import tasks
from envs.sql.data import database
from envs.sql.domains import DOMAINS, SEEN, UNSEEN
from envs.sql.environment import SqlEnvironment
from envs.sql.schema import Domain
from envs.sql.tasks import Task, number_of, task
from tests.servers import ROOT


@pytest.fixture(scope="module")
def split_tasks() -> dict[str, list[Task]]:
    return {split: [task(number_of(split, index)) for index in range(size)] for split, size in tasks.SPLITS.items()}


def test_splits_have_their_sizes_and_share_no_task(split_tasks: dict[str, list[Task]]) -> None:
    assert {split: len(found) for split, found in split_tasks.items()} == {
        "train": 4000,
        "validation": 200,
        "test": 500,
    }
    every = [found for listed in split_tasks.values() for found in listed]
    assert len({found.number for found in every}) == tasks.TOTAL
    assert len({(found.domain.name, found.question.sql()) for found in every}) == tasks.TOTAL
    assert len({(found.domain.name, found.wording) for found in every}) == tasks.TOTAL


def test_the_test_split_asks_about_all_domains_two_of_which_training_never_sees(
    split_tasks: dict[str, list[Task]],
) -> None:
    asked = {split: {found.domain.name for found in listed} for split, listed in split_tasks.items()}
    assert asked["train"] == asked["validation"] == {domain.name for domain in SEEN}
    assert asked["test"] - asked["train"] == {domain.name for domain in UNSEEN}
    assert len(asked["train"]) == 8 and len(UNSEEN) == 2
    unseen = sum(found.domain in UNSEEN for found in split_tasks["test"])
    assert 200 <= unseen <= 300


@pytest.mark.parametrize("split", tasks.SPLITS)
def test_levels_take_turns(split_tasks: dict[str, list[Task]], split: str) -> None:
    assert [found.level for found in split_tasks[split]] == [1, 2, 3, 4, 5] * (tasks.SPLITS[split] // 5)


def test_every_shape_of_question_is_asked_in_every_split(split_tasks: dict[str, list[Task]]) -> None:
    shapes = {split: Counter(type(found.question) for found in listed) for split, listed in split_tasks.items()}
    assert len(shapes["train"]) == 23
    assert set(shapes["train"]) == set(shapes["validation"]) == set(shapes["test"])


def test_negative_indices_count_from_the_end() -> None:
    assert number_of("test", -1) == tasks.TOTAL - 1
    assert number_of("train", -4000) == 0


@pytest.mark.parametrize(("split", "index"), [("train", 4000), ("train", -4001), ("test", 500)])
def test_an_index_outside_the_split_is_an_error(split: str, index: int) -> None:
    with pytest.raises(IndexError, match=split):
        number_of(split, index)


@pytest.mark.parametrize("number", [-1, tasks.TOTAL])
def test_a_number_outside_all_splits_is_an_error(number: int) -> None:
    with pytest.raises(IndexError):
        task(number)


def test_tasks_and_data_are_the_same_in_every_process() -> None:
    code = """
import hashlib
from envs.sql.data import database
from envs.sql.editions import editions
from envs.sql.tasks import task
print([(task(n).wording, task(n).question.sql(), editions(n)) for n in range(0, 4700, 470)])
print(hashlib.sha256(database("museum", 23)).hexdigest())
"""
    heard = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(heard) == 1 and b"Editions" in heard.pop()


def test_a_range_of_tasks_is_listed_without_building_a_database_or_the_other_tasks() -> None:
    task.cache_clear()
    built = database.cache_info().misses
    rows = asyncio.run(SqlEnvironment.get_task_range("train", 3990, 3995))
    assert [row["task"] for row in rows] == [3990, 3991, 3992, 3993, 3994]
    assert asyncio.run(SqlEnvironment.num_tasks("train")) == 4000
    assert (task.cache_info().misses, database.cache_info().misses) == (5, built)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_domains_have_related_tables_with_gaps_dates_and_money(domain: Domain) -> None:
    columns = [column for table in domain.tables for column in table.columns]
    kinds = Counter(column.kind for column in columns)
    assert 3 <= len(domain.tables) <= 6
    assert len(list(domain.links())) >= 3
    assert kinds["money"] and kinds["day"] >= 2 and kinds["category"] >= 3
    assert any(column.nulls for column in columns)
