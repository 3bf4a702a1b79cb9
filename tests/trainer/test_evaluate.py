"""Success rates and their intervals."""

from __future__ import annotations

import random

import pytest

from trainer.episodes import Score
from trainer.evaluate import Evaluation, interval, rate, rates, summary
from trainer.ors.rollout import Task


def scores(*tasks: list[float | None], failed: bool = False) -> list[Score]:
    """One list of rewards a task; None is unscored."""
    return [
        Score(Task("gym", "test", at), reward, failed and reward is None)
        for at, rewards in enumerate(tasks)
        for reward in rewards
    ]


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [  # by the formula in Wilson (1927), to four places; 0/10 and 10/10 mirror each other
        (5, 10, 0.2366, 0.7634),
        (1, 10, 0.0179, 0.4042),
        (0, 10, 0.0000, 0.2775),
        (10, 10, 0.7225, 1.0000),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_independent_rollouts_have_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    found = interval([[at < hits] for at in range(of)])
    assert found == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_rollouts_of_one_task_that_are_all_alike_count_once() -> None:
    alike = interval([[True] * 8] * 5 + [[False] * 8] * 5)
    low, high = interval([[True]] * 5 + [[False]] * 5)
    assert alike[0] == pytest.approx(low, abs=0.02) and alike[1] == pytest.approx(high, abs=0.02)
    perfect = interval([[True] * 8] * 10)
    assert perfect == interval([[True]] * 10)


def test_rollouts_of_tasks_that_are_all_equally_hard_count_each() -> None:
    mixed = interval([[True, False] * 4] * 10)
    low, high = interval([[True]] * 40 + [[False]] * 40)
    assert mixed == (pytest.approx(low), pytest.approx(high))


def test_no_rollouts_say_nothing() -> None:
    assert interval([]) == (0.0, 1.0)


def test_the_interval_of_clustered_rollouts_holds_the_truth_about_as_often_as_it_says() -> None:
    """Tasks differ in how hard they are; the interval is of the split, from 40 of its tasks played 4 times each."""
    rng = random.Random(7)
    held = naive = 0
    trials = 600
    for _ in range(trials):
        hard = [rng.betavariate(0.5, 0.5) for _ in range(40)]  # mean 0.5: most tasks are nearly always or never solved
        tasks = [[rng.random() < p for _ in range(4)] for p in hard]
        low, high = interval(tasks)
        held += low <= 0.5 <= high
        low, high = interval([[hit] for task in tasks for hit in task])
        naive += low <= 0.5 <= high
    assert 0.92 <= held / trials <= 0.98
    assert naive / trials < 0.85  # what would be claimed if rollouts of a task were taken for independent


def test_what_the_environment_failed_says_nothing_of_the_model() -> None:
    fair = [*scores([1.0, 0.0]), *scores([None, None], failed=True)]
    found = rate(fair, success_at=1.0)
    assert found["success"] == 0.5
    assert (found["n"], found["judged"], found["scored"], found["reward"]) == (4, 2, 0.5, 0.5)


def test_an_episode_that_was_not_scored_through_the_model_is_no_success() -> None:
    found = rate(scores([1.0, None]), success_at=1.0)
    assert found["success"] == 0.5
    assert found["reward"] == 1.0


def test_a_score_that_came_before_the_failure_counts() -> None:
    assert rate([Score(Task("gym", "test", 0), 1.0, True)], success_at=1.0)["success"] == 1.0


def test_success_begins_where_it_is_said_to() -> None:
    tasks = scores([0.2, 0.5, 0.9, 1.5])
    assert [rate(tasks, at)["success"] for at in (0.5, 1.0, 2.0)] == [0.75, 0.25, 0.0]


def test_nothing_played_is_no_error() -> None:
    nothing = {"success": None, "low": None, "high": None, "judged": 0, "reward": None, "scored": 0.0}
    assert rate([], 1.0) == {**nothing, "n": 0}
    assert rate(scores([None] * 4, failed=True), 1.0) == {**nothing, "n": 4}


def test_the_line_says_how_many_were_judged() -> None:
    def line(sampled: list[Score], greedy: list[Score]) -> str:
        rates = {"sampled": rate(sampled, 1.0), "greedy": rate(greedy, 1.0)}
        return summary(Evaluation(split="test", tasks=2, rollouts_per_task=2, **rates))

    all_of_them, half = scores([1.0, 0.0], [0.0, 0.0]), scores([1.0, 0.0], [None, None], failed=True)
    none = scores([None, None], [None, None], failed=True)
    assert line(all_of_them, all_of_them[:2]).endswith("2 tasks, 4 rollouts, 100% scored), 0.500 greedy")
    assert "2 tasks, 4 rollouts, 2 of them judged, 50% scored), 1.000 greedy (2 rollouts, 1 of them judged)" in line(
        half, half[::2]
    )
    assert line(none, none[::2]) == (
        "success - sampled (2 tasks, 4 rollouts, none of them judged, 0% scored), - greedy (2 rollouts, none of them "
        "judged)"
    )


def test_several_environments_have_a_rate_each() -> None:
    easy = scores([1.0, 1.0], [1.0, 0.0])
    hard = [Score(Task("sql", "test", 0), reward, reward is None) for reward in (0.0, None)]
    found = rates([*easy, *hard], 1.0)
    assert found["environments"] == {"gym": rate(easy, 1.0), "sql": rate(hard, 1.0)}
    assert found["success"] == 0.6
    assert "environments" not in rates(easy, 1.0)
    line = summary(Evaluation(split="test", tasks=3, rollouts_per_task=2, sampled=found, greedy=rates(easy + hard, 1)))
    assert line.endswith("; gym 0.750 sampled, 0.750 greedy; sql 0.000 sampled, 0.000 greedy")
