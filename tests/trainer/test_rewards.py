"""From an episode to a score: which number, and when there is none."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.rewards import Reduction, Reward

LARGEST = 3.4028234663852886e38  # in single precision
FAILED = EnvironmentFailure("crash", "it broke")


@dataclass
class Played:
    """An episode as its adapter leaves it."""

    rewards: list[float | None] = field(default_factory=list)
    finished: bool = False
    failure: EnvironmentFailure | None = None


@pytest.mark.parametrize(
    ("reduction", "score"), [("outcome", -0.5), ("sum", 1.5), ("mean", 0.5), ("max", 2.0), ("min", -0.5)]
)
def test_rewards_are_reduced_to_one(reduction: Reduction, score: float) -> None:
    assert Reward(reduction).score(Played([None, 0.0, 2.0, None, -0.5, None])) == score


@pytest.mark.parametrize("reduction", ["outcome", "sum", "mean", "max", "min"])
@pytest.mark.parametrize("rewards", [[], [None], [None, None]])
def test_where_nothing_scored_there_is_no_score(reduction: Reduction, rewards: list[float | None]) -> None:
    assert Reward(reduction).score(Played(rewards)) is None


@pytest.mark.parametrize("reduction", ["outcome", "sum", "mean", "max", "min"])
@pytest.mark.parametrize("reward", [0.0, -1.0])
def test_nought_and_less_are_scores(reduction: Reduction, reward: float) -> None:
    assert Reward(reduction, unfinished=9.0).score(Played([reward])) == reward


@pytest.mark.parametrize(
    ("episode", "score"),
    [
        (Played(), -1.0),
        (Played([None]), -1.0),
        (Played([0.25]), 0.25),
        (Played(finished=True), None),
        (Played([None], finished=True), None),
        (Played(failure=FAILED), None),
        (Played([None], failure=FAILED), None),
    ],
)
def test_giving_up_counts_as_asked_and_what_the_environment_did_does_not(episode: Played, score: float | None) -> None:
    assert Reward(unfinished=-1.0).score(episode) == score


@pytest.mark.parametrize(
    ("reduction", "score"), [("outcome", 0.5), ("sum", None), ("mean", None), ("max", None), ("min", None)]
)
def test_an_episode_cut_short_keeps_its_outcome_alone(reduction: Reduction, score: float | None) -> None:
    assert Reward(reduction, unfinished=-1.0).score(Played([1.0, 0.5, None], failure=FAILED)) == score


@pytest.mark.parametrize(
    ("reduction", "rewards", "score"),
    [
        ("outcome", [0.5, 1e39], 0.5),
        ("sum", [1e308, 1e308], None),
        ("mean", [1e308, 1e308, 0.5], 0.5),
        ("max", [float("inf"), 2.0], 2.0),
        ("min", [-1e39, 2.0], 2.0),
        ("sum", [LARGEST, LARGEST], None),
        ("sum", [LARGEST, LARGEST, -LARGEST, -LARGEST, 1.0], 1.0),
        ("mean", [LARGEST, LARGEST], LARGEST),
        ("outcome", [-LARGEST], -LARGEST),
    ],
)
def test_what_single_precision_cannot_hold_is_no_number_to_learn_from(
    reduction: Reduction, rewards: list[float | None], score: float | None
) -> None:
    assert Reward(reduction).score(Played(rewards)) == score


@given(st.lists(st.none() | st.floats(-1e6, 1e6)), st.sampled_from(["outcome", "sum", "mean", "max", "min"]))
def test_calls_that_were_not_scored_change_nothing(rewards: list[float | None], reduction: Reduction) -> None:
    scored: list[float | None] = [reward for reward in rewards if reward is not None]
    reward = Reward(reduction)
    assert reward.score(Played(rewards)) == reward.score(Played(scored))
    assert reward.score(Played([*rewards, None])) == reward.score(Played(rewards))


def test_scores_are_aligned_and_the_share_that_has_one_is_logged() -> None:
    logged: list[tuple[str, float]] = []
    episodes = [Played([1.0]), Played(), Played([0.0]), Played(failure=FAILED)]
    columns: Any = {"self": [1, 2, 3, 4], "target": ["a"] * 4, "prompts": [], "trainer_state": None}
    assert Reward()(environments=episodes, log_metric=lambda *metric: logged.append(metric), **columns) == [
        1.0,
        None,
        0.0,
        None,
    ]
    assert logged == [("env/scored", 0.5)]


def test_it_can_be_called_from_a_function_of_ones_own() -> None:
    assert Reward()(environments=[Played([0.5])]) == [0.5]
    assert Reward()(environments=[]) == []


def test_it_pickles_and_compares_by_its_settings() -> None:
    reward = Reward("sum", -1.0)
    assert pickle.loads(pickle.dumps(reward)) == reward != Reward("sum")
    assert reward.__name__ == "sum"


@pytest.mark.parametrize("unfinished", [float("nan"), float("inf"), 1e39, -1e39])
def test_only_numbers_that_a_trainer_can_use_are_taken(unfinished: float) -> None:
    with pytest.raises(ConfigurationError):
        Reward(unfinished=unfinished)
