"""Nothing that the hidden database holds reaches the model but whether a submission is right."""

from __future__ import annotations

import pytest

from envs.sql.environment import SqlTask
from envs.sql.grading import NOT_HERE, NOT_THERE
from envs.sql.tasks import task
from tests.envs.sql.databases import only_right_where_it_is_seen, results
from tests.episode import Episode

ASKED = task(0)
ENDLESS = "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n)"
# The database's own words quote what a query computes.
QUOTING = "json_extract('{}', 'amounts: ' || (SELECT group_concat(amount) FROM orders))"
ABSENT = "(SELECT id FROM orders WHERE 1 = 0)"


@pytest.mark.parametrize("partial_credit", [False, True])
@pytest.mark.parametrize("elsewhere", ["-1", QUOTING, ENDLESS, ABSENT, "abs(-9223372036854775807 - 1)"])
def test_whatever_happens_on_the_hidden_database_is_told_in_the_same_words(
    url: str, elsewhere: str, partial_credit: bool
) -> None:
    spec = SqlTask(task=ASKED.number, partial_credit=partial_credit).model_dump()
    with Episode(url, "sql", task_spec=spec) as episode:
        told = episode.call("submit", sql=only_right_where_it_is_seen(ASKED, elsewhere))
    assert told == {
        "blocks": [{"text": NOT_THERE, "detail": None, "type": "text"}],
        "text": NOT_THERE,
        "reward": 0.0,
        "finished": True,
        "metadata": {"correct": False, "domain": "shop", "level": 1},
    }


@pytest.mark.parametrize("elsewhere", ["-2", QUOTING, "NULL"])
def test_a_submission_that_is_wrong_where_it_is_seen_is_told_so_whatever_happens_elsewhere(
    url: str, elsewhere: str
) -> None:
    ((answer,),) = results(ASKED, ASKED.question.sql())[0]
    wrong = only_right_where_it_is_seen(ASKED, elsewhere).replace(f"THEN {answer}", "THEN -1")
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("submit", sql=wrong)
    assert (told["text"], told["reward"], told["finished"]) == (NOT_HERE, 0.0, True)


def test_what_a_submission_reads_where_it_is_seen_is_quoted_briefly(url: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("submit", sql=f"SELECT {QUOTING}")
    assert told["text"].startswith("Wrong. Error: ") and len(told["text"]) <= 320
    assert told["reward"] == 0.0
