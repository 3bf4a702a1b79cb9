"""Every gold query runs, is what its question asks, and is told from queries that are nearly right."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from envs.sql import tasks
from envs.sql.compare import same_result
from envs.sql.editions import MOST_ROWS, editions
from envs.sql.questions import SHAPES
from envs.sql.questions.level2 import AggregateBy, CountBy, CountByYear, LargestGroup, SortedCountBy
from envs.sql.questions.level3 import CountOverTwoJoins
from envs.sql.tasks import Task, task
from tests.envs.sql.databases import frames, is_right, results
from tests.envs.sql.mutants import mutants
from tests.envs.sql.reference import answer
from tests.servers import ROOT

LEAST_SHARE_CAUGHT = 0.95


def sample(level: int, size: int) -> list[Task]:
    """Return tasks of a level from all splits, the same ones every time."""
    numbers = range(level - 1, tasks.TOTAL, len(tasks.LEVELS))
    return [task(number) for number in sorted(random.Random(level).sample(numbers, size))]


def check_gold(asked: Task) -> None:
    gold = results(asked, asked.question.sql())
    assert all(0 < len(rows) <= MOST_ROWS for rows in gold), asked
    assert any(cell not in (None, 0) for rows in gold for row in rows for cell in row), asked
    assert not same_result(gold[0], gold[1], ordered=asked.question.ordered), asked


def share_caught(sampled: list[Task]) -> tuple[float, Counter[str], Counter[str]]:
    """Return the share of mutants that are wrong, and the number of all and of undetected mutants by kind."""
    made: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for asked in sampled:
        gold = results(asked, asked.question.sql())
        for kind, mutant in mutants(asked.question.sql()):
            made[kind] += 1
            missed[kind] += is_right(asked, results(asked, mutant), gold)
    return 1 - missed.total() / made.total(), made, missed


@pytest.mark.parametrize("level", tasks.LEVELS)
def test_gold_queries_run_and_no_constant_is_right_on_both_databases(level: int) -> None:
    for asked in sample(level, 40):
        check_gold(asked)


@pytest.mark.slow
def test_all_gold_queries_run_and_no_constant_is_right_on_both_databases() -> None:
    for number in range(tasks.TOTAL):
        check_gold(task(number))


@pytest.mark.parametrize("level", tasks.LEVELS)
def test_gold_answers_are_those_found_without_sql(level: int) -> None:
    seen = set()
    for asked in sample(level, 200):
        chosen = editions(asked.number)
        gold = results(asked, asked.question.sql())
        for edition, rows in zip((chosen.visible, chosen.hidden), gold, strict=True):
            expected = answer(asked.question, frames(asked.domain.name, edition))
            assert same_result(rows, expected, ordered=asked.question.ordered), asked
        seen.add(type(asked.question))
    assert seen == set(SHAPES[level])


@pytest.mark.parametrize("level", tasks.LEVELS)
def test_nearly_right_queries_score_nothing(level: int) -> None:
    share, made, missed = share_caught(sample(level, 40))
    assert share >= LEAST_SHARE_CAUGHT, (made, missed)
    assert made["dropped filter"] and made["off by one"]


def test_few_tasks_have_a_near_miss_that_their_databases_do_not_tell_from_gold() -> None:
    sampled = [asked for level in tasks.LEVELS for asked in sample(level, 200)]
    assert sum(editions(asked.number).missed > 0 for asked in sampled) <= 0.04 * len(sampled)


@pytest.mark.slow
def test_the_readme_says_how_many_tasks_have_one() -> None:
    missed = sum(editions(number).missed > 0 for number in range(tasks.TOTAL))
    readme = (ROOT / "envs" / "sql" / "README.md").read_text(encoding="utf-8")
    assert f"In {missed} of the\n4,700 tasks ({missed / tasks.TOTAL:.1%})".replace("%", " %") in readme


@pytest.mark.slow
def test_nearly_right_queries_score_nothing_over_all_tasks() -> None:
    share, made, missed = share_caught([task(number) for number in range(tasks.TOTAL)])
    assert share >= LEAST_SHARE_CAUGHT, (made, missed)
    assert set(made) == {"dropped filter", "wrong join", "off by one", "swapped word"}


@pytest.mark.parametrize("level", tasks.LEVELS)
def test_every_wording_names_what_the_conditions_name(level: int) -> None:
    for asked in sample(level, 200):
        conditions = getattr(asked.question, "conditions", ())
        for wording in asked.question.wordings():
            assert wording[0].isupper() and wording[-1] in ".?" and "  " not in wording
            assert all(str(condition.value) in wording for condition in conditions), wording


def test_a_question_whose_answer_leaves_groups_out_says_so() -> None:
    seen = set()
    for asked in [*sample(2, 200), *sample(3, 200)]:
        question = asked.question
        if not isinstance(question, AggregateBy | CountBy | CountByYear | CountOverTwoJoins):
            continue
        if isinstance(question, LargestGroup):  # which asks for one group
            continue
        of_all = results(asked, replace(question, conditions=()).sql())
        for rows, every_group in zip(results(asked, question.sql()), of_all, strict=True):
            if {row[0] for row in rows} < {row[0] for row in every_group}:
                assert all("that has any" in text or "without any." in text for text in question.wordings()), asked
                seen.add(type(question))
    assert seen == {AggregateBy, CountBy, SortedCountBy, CountByYear, CountOverTwoJoins}, "or the test tests less"


def test_questions_have_several_wordings_and_all_are_used() -> None:
    used = {asked.question.wordings().index(asked.wording) for level in tasks.LEVELS for asked in sample(level, 40)}
    assert used == {0, 1, 2}
    assert all(len(set(asked.question.wordings())) >= 2 for level in tasks.LEVELS for asked in sample(level, 200))
