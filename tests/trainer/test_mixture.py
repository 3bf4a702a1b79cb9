"""Several environments in one run: exact shares, told apart, each scored as its own spec says."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.scripted_server import Protocol, scripted
from trainer import Mixture, OpenRewardSpec
from trainer.ors.errors import ConfigurationError


def shares(mixture: Mixture) -> Counter[str]:
    return Counter(mixture.train_dataset["environment"])


def test_by_default_every_task_of_every_environment_comes_once(workshop: str, pair: str) -> None:
    mixture = Mixture([OpenRewardSpec(workshop), OpenRewardSpec(pair, env_name="second-shop")])
    rows = mixture.train_dataset.to_list()
    assert sorted((row["environment"], row["task_index"]) for row in rows) == [
        *(("second-shop", index) for index in range(2)),
        *(("workshop", index) for index in range(3)),
    ]
    by_name = {(row["environment"], row["task_index"]): row for row in rows}
    assert by_name["workshop", 0]["target"] == "alpha"
    assert by_name["workshop", 0]["second"] is None
    assert by_name["second-shop", 1]["second"] is False
    assert all(row["prompt"] == [{"role": "user", "content": ""}] and row["split"] == "train" for row in rows)


def test_weights_are_exact_over_an_epoch_and_no_task_comes_twice_before_all_have_come(workshop: str) -> None:
    specs = [OpenRewardSpec(workshop), OpenRewardSpec(workshop, split="test")]
    mixture = Mixture(specs, weights=[1, 3], size=20)
    assert shares(mixture) == {"workshop/train": 5, "workshop/test": 15}
    times = Counter((row["environment"], row["task_index"]) for row in mixture.train_dataset.to_list())
    assert sorted(times[f"workshop/{split}", index] for split, index in [("test", 0), ("test", 1)]) == [7, 8]
    assert sorted(times["workshop/train", index] for index in range(3)) == [1, 2, 2]


def test_an_environment_that_would_never_be_drawn_is_an_error(workshop: str) -> None:
    specs = [OpenRewardSpec(workshop), OpenRewardSpec(workshop, split="test")]
    with pytest.raises(ConfigurationError, match=r"^workshop/test has no row in an epoch of 5: "):
        _ = Mixture(specs, weights=[100, 1]).train_dataset


def test_the_order_is_mixed_and_follows_the_seed(workshop: str) -> None:
    def order(seed: int) -> list[int]:
        specs = [OpenRewardSpec(workshop, split="many", num_tasks=50), OpenRewardSpec(workshop)]
        return list(Mixture(specs, seed=seed).train_dataset["task_index"])

    assert order(1) == order(1) != order(2)
    assert order(1) != sorted(order(1))


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6).flatmap(
        lambda weights: st.tuples(st.just(weights), st.integers(1, 5000))
    )
)
def test_shares_sum_to_the_size_and_are_off_by_less_than_one(case: tuple[list[float], int]) -> None:
    weights, size = case
    specs = [OpenRewardSpec("http://127.0.0.1:1", name=str(at)) for at in range(len(weights))]
    counts = Mixture(specs, weights=weights, size=size)._counts([1] * len(weights))
    assert sum(counts) == size
    assert all(abs(n - size * weight / sum(weights)) < 1 + 1e-6 for n, weight in zip(counts, weights, strict=True))


def test_one_server_under_two_splits_is_two_environments(workshop: str) -> None:
    mixture = Mixture([OpenRewardSpec(workshop), OpenRewardSpec(workshop, split="test")])
    factories = mixture.environment_factory
    assert list(factories) == ["workshop/train", "workshop/test"]
    prompts = set()
    for row in mixture.train_dataset.to_list():
        prompts.add(factories[row["environment"]]().reset(**row))
    assert prompts == {"Make alpha.", "Make beta.", "Make gamma.", "Make omega.", "Make psi."}


def test_names_that_cannot_be_told_apart_are_refused(workshop: str) -> None:
    mixture = Mixture([OpenRewardSpec(workshop), OpenRewardSpec(workshop, indices=[1])])
    with pytest.raises(ConfigurationError, match="name="):
        _ = mixture.specs
    named = Mixture([OpenRewardSpec(workshop), OpenRewardSpec(workshop, indices=[1], name="again")])
    assert shares(named) == {"workshop": 3, "again": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"specs": []},
        {"weights": [1]},
        {"weights": [1, 0]},
        {"weights": [1, -1]},
        {"weights": [1, float("nan")]},
        {"weights": [1, float("inf")]},
        {"size": 0},
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any]) -> None:
    specs = [OpenRewardSpec("http://127.0.0.1:1"), OpenRewardSpec("http://127.0.0.1:2")]
    with pytest.raises(ConfigurationError):
        Mixture(**{"specs": specs, **settings})


def test_fields_of_unlike_types_share_a_column_and_lose_nothing() -> None:
    import json

    one, two = Protocol(), Protocol()
    one.tasks["train"] = [{"answer": "four", "options": ["a"]}]
    two.tasks["train"] = [{"answer": 4, "options": {"b": 1}}]
    with scripted(one) as first, scripted(two) as second:
        mixture = Mixture([OpenRewardSpec(first.url, name="one"), OpenRewardSpec(second.url, name="two")])
        rows = {row["environment"]: row for row in mixture.train_dataset.to_list()}
    assert [json.loads(rows[name]["answer"]) for name in ("one", "two")] == ["four", 4]
    assert [json.loads(rows[name]["options"]) for name in ("one", "two")] == [["a"], {"b": 1}]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (["a", 1], [2.5, 3.5], ['"a"', "1", "2.5", "3.5"]),
        (["a", 1], ["hello", "1"], ['"a"', "1", '"hello"', '"1"']),
        (["a", None], [None, 1], ['"a"', None, None, "1"]),
        ([{"b": 1}, {"c": 1}], [{"b": 1}, {"b": 2}], ['{"b": 1}', '{"c": 1}', '{"b": 1}', '{"b": 2}']),
        (["a", "b"], ["c", "d"], ["a", "b", "c", "d"]),
    ],
)
def test_a_field_of_unlike_types_is_json_text_once(first: list[Any], second: list[Any], kept: list[Any]) -> None:
    one, two = Protocol(), Protocol()
    one.tasks["train"], two.tasks["train"] = [{"x": value} for value in first], [{"x": value} for value in second]
    with scripted(one) as a, scripted(two) as b:
        specs = [OpenRewardSpec(a.url, name="one"), OpenRewardSpec(b.url, name="two")]
        assert [len(spec.train_dataset) for spec in specs] == [2, 2]
        rows = {(row["environment"], row["task_index"]): row["x"] for row in Mixture(specs).train_dataset.to_list()}
        assert [rows[key] for key in sorted(rows)] == kept
        assert (a.count("/shop/task_range"), b.count("/shop/task_range")) == (1, 1)


def test_each_environment_is_scored_as_its_own_spec_says(workshop: str) -> None:
    mixture = Mixture(
        [
            OpenRewardSpec(workshop, name="sum", reward="sum"),
            OpenRewardSpec(workshop, name="last", unfinished_reward=-1.0),
            OpenRewardSpec(workshop, name="plain"),
        ]
    )
    rollouts = [factory() for factory in mixture.environment_factory.values()]
    for rollout in rollouts:
        rollout.reset(task_index=0)
    for reward in (1.0, 2.0):
        rollouts[0].score(reward=reward)
    logged: list[tuple[str, float]] = []
    score = mixture.reward_funcs
    assert score(environments=rollouts, log_metric=lambda *metric: logged.append(metric)) == [3.0, -1.0, None]
    assert logged == [("env/scored", 2 / 3)]
    assert pickle.loads(pickle.dumps(score)) == score
