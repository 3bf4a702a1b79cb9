"""The sql environment, over HTTP."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest

from envs.sql import tasks
from envs.sql.editions import editions
from envs.sql.grading import NOT_HERE
from envs.sql.tasks import number_of, task
from tests.envs.sql.databases import opened, results
from tests.episode import Episode
from tests.servers import ROOT


def post(url: str, what: str, **body: Any) -> Any:
    return httpx.post(f"{url}/sql/{what}", json=body, trust_env=False).raise_for_status().json()


def first_task(shape: str, split: str = "train") -> int:
    """Return the index of a split's first task of a shape."""
    return next(i for i in range(1000) if type(task(number_of(split, i)).question).__name__ == shape)


def test_splits_are_typed_and_counted(url: str) -> None:
    splits = httpx.get(f"{url}/sql/splits", trust_env=False).json()
    assert splits == [{"name": name, "type": name} for name in ("train", "validation", "test")]
    assert {name: post(url, "num_tasks", split=name)["num_tasks"] for name in tasks.SPLITS} == tasks.SPLITS


def test_ranges_tasks_and_lists_agree(url: str) -> None:
    listed = post(url, "tasks", split="validation")["tasks"]
    assert len(listed) == 200
    assert post(url, "task_range", split="validation", start=10, stop=13)["tasks"] == listed[10:13]
    assert post(url, "task_range", split="validation", start=-2)["tasks"] == listed[-2:]
    assert post(url, "task", split="validation", index=199)["task"] == listed[199]
    refused = httpx.post(f"{url}/sql/task", json={"split": "validation", "index": 200}, trust_env=False)
    assert refused.status_code == 400


def test_a_row_says_what_people_want_to_read_and_nothing_of_the_answer(url: str) -> None:
    (row,) = post(url, "task_range", split="train", start=7, stop=8)["tasks"]
    asked = task(7)
    assert row == {
        "task": 7,
        "question": asked.wording,
        "domain": asked.domain.name,
        "level": asked.level,
        "max_queries": 10,
        "partial_credit": False,
    }


@pytest.mark.parametrize("level", tasks.LEVELS)
def test_the_gold_query_scores_one_and_is_shown_nowhere_before(url: str, level: int) -> None:
    for index in random.Random(level).sample(range(level - 1, 500, 5), 4):
        gold = task(number_of("test", index)).question.sql()
        with Episode(url, "sql", split="test", index=index) as episode:
            (row,) = post(url, "task_range", split="test", start=index, stop=index + 1)["tasks"]
            tools = httpx.get(f"{url}/sql/tools", trust_env=False).text
            shown = [json.dumps(row), tools, episode.prompt(), json.dumps(episode.call("describe"))]
            told = episode.call("submit", sql=gold)
            shown.append(json.dumps(told))
        assert (told["text"], told["reward"], told["finished"]) == ("Correct.", 1.0, True)
        assert told["metadata"] == {"correct": True, "domain": row["domain"], "level": level}
        assert not [text for text in shown if gold in text or gold in json.loads(json.dumps(text))]


def test_the_tools_are_three_and_say_what_their_arguments_are(url: str) -> None:
    tools = {tool["name"]: tool for tool in httpx.get(f"{url}/sql/tools", trust_env=False).json()["tools"]}
    assert set(tools) == {"describe", "query", "submit"}
    assert all(tool["description"] for tool in tools.values())
    for tool in tools.values():
        assert all(argument["description"] for argument in tool["input_schema"]["properties"].values())
    assert "required" not in tools["describe"]["input_schema"]


def test_describe_shows_tables_columns_types_keys_and_three_rows(url: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        every, one = episode.call("describe"), episode.call("describe", table="Orders")
        missing = episode.call("describe", table="nothing")
    assert [line.split("(")[0] for line in every["text"].splitlines()] == ["customers", "products", "orders", "reviews"]
    assert "customer_id INTEGER REFERENCES customers(id)" in every["text"]
    assert one["text"].startswith("orders\n  id INTEGER PRIMARY KEY\n")
    assert "delivered_on TEXT NULL" in one["text"]
    assert len(one["text"].partition("rows:\n")[2].splitlines()) == 2 + 3
    assert missing["text"] == "There is no such table. Tables: customers, products, orders, reviews."
    assert {told["reward"] for told in (every, one, missing)} == {None}


def test_query_shows_a_small_aligned_table_without_a_reward(url: str) -> None:
    sql = "SELECT 'Lyon' AS city, 12 AS n UNION ALL SELECT NULL, 3 ORDER BY n DESC"
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("query", sql=sql)
    assert told["text"] == "city |  n\n-----+---\nLyon | 12\nNULL |  3\n(2 rows)"
    assert (told["reward"], told["finished"]) == (None, False)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT nope FROM orders", "Error: no such column: nope"),
        ("SELEC 1", 'Error: near "SELEC": syntax error'),
        ("SELECT 1; SELECT 2", "Error: You can only execute one statement at a time."),
        ("", "Error: this is no query that returns rows; write one SELECT"),
        ("SELECT 1;; SELECT 2;", "Error: You can only execute one statement at a time."),
        (" ;; ", "Error: this is no query that returns rows; write one SELECT"),
        ("SELECT ?", "Error: "),
        ("SELECT 1\0", "Error: "),
        ("SELECT " + "1+" * 6000 + "1", "Error: the query is longer than 10,000 characters"),
    ],
)
def test_bad_sql_is_answered_with_the_database_s_own_words(url: str, sql: str, told: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        answer = episode.call("query", sql=sql)
        assert answer["text"].startswith(told) and "\n" not in answer["text"]
        assert (answer["reward"], answer["finished"]) == (None, False)
        assert episode.call("query", sql="SELECT 1")["text"].endswith("(1 row)")


@pytest.mark.parametrize(
    "sql", ["SELECT 1;", "SELECT 1;;", " ;SELECT 1 ; ;\n", "SELECT 1 -- one;;", "SELECT 1; -- one"]
)
def test_semicolons_round_a_query_do_not_count(url: str, sql: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        assert episode.call("query", sql=sql)["text"].endswith("(1 row)")


@pytest.mark.parametrize("sql", ["SELECT nothing", "DROP TABLE orders", "", "SELECT COUNT(*) FROM orders WHERE 1 = 0"])
def test_a_wrong_submission_scores_zero_and_ends_the_episode(url: str, sql: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("submit", sql=sql)
        assert (told["reward"], told["finished"]) == (0.0, True)
        assert told["text"].startswith("Wrong")
        assert episode.answer("query", {"sql": "SELECT 1"})["reason"] == "episode_finished"


def test_the_right_number_as_a_constant_scores_nothing(url: str) -> None:
    asked = task(0)
    ((visible,), _) = results(asked, asked.question.sql())
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("submit", sql=f"SELECT {visible[0]}")
    assert told["reward"] == 0.0
    assert told["text"] == "Wrong: the query fits the data you saw, but not other data in the same tables."


def test_order_counts_where_the_question_asks_for_it(url: str) -> None:
    index = first_task("SortedNamesWhere")
    gold = task(number_of("train", index)).question.sql()
    with Episode(url, "sql", split="train", index=index) as episode:
        assert episode.call("submit", sql=f"{gold} DESC")["reward"] == 0.0
    index = first_task("NamesWhere")
    gold = task(number_of("train", index)).question.sql()
    with Episode(url, "sql", split="train", index=index) as episode:
        assert episode.call("submit", sql=f"SELECT * FROM ({gold}) ORDER BY 1 DESC")["reward"] == 1.0


def test_names_of_columns_and_rounding_do_not_count(url: str) -> None:
    index = first_task("AggregateBy")
    gold = task(number_of("train", index)).question.sql()
    assert "ROUND(AVG(" in gold
    unrounded = gold.replace("ROUND(AVG(", "(AVG(").replace("), 2)", ")) AS mean")
    with Episode(url, "sql", split="train", index=index) as episode:
        assert episode.call("submit", sql=unrounded)["reward"] == 1.0


def test_queries_are_counted_and_end_but_submit_stays_open(url: str) -> None:
    spec = {**post(url, "task", split="train", index=0)["task"], "max_queries": 2}
    with Episode(url, "sql", task_spec=spec) as episode:
        assert "up to 2 calls" in episode.prompt()
        assert "(1 row)" in episode.call("query", sql="SELECT 1")["text"]
        assert "Error" in episode.call("query", sql="SELECT nothing")["text"]
        told = episode.call("query", sql="SELECT 1")
        assert told["text"] == "All 2 queries are used up. Submit your answer."
        assert "orders" in episode.call("describe")["text"]
        assert episode.call("submit", sql=task(0).question.sql())["reward"] == 1.0


def test_partial_credit_is_half_the_overlap_of_rows_and_only_where_asked_for(url: str) -> None:
    index = first_task("NamesWhere")
    asked = task(number_of("train", index))
    most = f"{asked.question.sql()} LIMIT (SELECT COUNT(*) - 1 FROM ({asked.question.sql()}))"
    rewards = []
    for partial in (False, True):
        with Episode(url, "sql", task_spec={"task": asked.number, "partial_credit": partial}) as episode:
            rewards.append(episode.call("submit", sql=most)["reward"])
    with Episode(url, "sql", task_spec={"task": asked.number, "partial_credit": True}) as episode:
        assert episode.call("submit", sql=asked.question.sql())["reward"] == 1.0
    assert rewards[0] == 0.0
    sizes = [len(rows) for rows in results(asked, asked.question.sql())]
    assert rewards[1] == pytest.approx(min((size - 1) / (2 * size - 1) for size in sizes))


@pytest.mark.parametrize("junk", [100, 1000, 62_500])
def test_partial_credit_is_nothing_for_the_right_rows_among_a_hundred_others(url: str, junk: int) -> None:
    index = first_task("NamesWhere")
    asked = task(number_of("train", index))
    rows = f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {junk}) SELECT 'x' || x FROM n"
    with Episode(url, "sql", task_spec={"task": asked.number, "partial_credit": True}) as episode:
        told = episode.call("submit", sql=f"SELECT * FROM ({asked.question.sql()}) UNION ALL SELECT * FROM ({rows})")
    assert (told["text"], told["reward"]) == (NOT_HERE, 0.0)


def test_partial_credit_counts_every_one_of_up_to_a_hundred_rows(url: str) -> None:
    index = first_task("NamesWhere")
    asked = task(number_of("train", index))
    gold = asked.question.sql()
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    padded = f"{numbers} SELECT * FROM ({gold}) UNION ALL SELECT x FROM n LIMIT 100"
    with Episode(url, "sql", task_spec={"task": asked.number, "partial_credit": True}) as episode:
        told = episode.call("submit", sql=padded)
    assert told["reward"] == pytest.approx(min(len(rows) / (len(rows) + 100) for rows in results(asked, gold)))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "task: Field required"),
        ({"task": -1}, "task: "),
        ({"task": tasks.TOTAL}, "task: "),
        ({"task": 10**40}, "task: "),
        ({"task": "1"}, "task: "),
        ({"task": True}, "task: "),
        ({"task": 1, "gold": "SELECT 1"}, "gold: Extra inputs"),
        ({"task": 1, "max_queries": -1}, "max_queries: "),
        ({"task": 1, "max_queries": 10**9}, "max_queries: "),
    ],
)
def test_a_made_up_task_is_refused_with_its_reason(url: str, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(httpx.HTTPStatusError, match=told) as refused, Episode(url, "sql", task_spec=spec):
        raise AssertionError("it must not open")
    assert refused.value.response.status_code == 400


def test_a_changed_row_does_not_change_the_question_or_the_grade(url: str) -> None:
    spec = {"task": 0, "question": "What is 1?", "domain": "museum", "level": 5}
    with Episode(url, "sql", task_spec=spec) as episode:
        assert episode.prompt().startswith(task(0).wording)
        told = episode.call("submit", sql="SELECT 1")
    assert told["reward"] == 0.0
    assert told["metadata"] == {"correct": False, "domain": "shop", "level": 1}


def test_sessions_see_their_own_databases_and_leave_nothing_in_them(url: str) -> None:
    sql = "SELECT COUNT(*), SUM(amount) FROM orders"
    first, second = (number for number in (0, 41) if task(number).domain.name == "shop")
    with (
        Episode(url, "sql", split="train", index=first) as one,
        Episode(url, "sql", split="train", index=second) as two,
    ):
        for statement in ("CREATE TABLE mine(x)", "CREATE TEMP TABLE mine(x)", "UPDATE orders SET amount = 0"):
            assert "not authorized" in one.call("query", sql=statement)["text"]
        assert "no such table" in two.call("query", sql="SELECT * FROM mine")["text"]
        seen = [episode.call("query", sql=sql)["text"] for episode in (one, two)]
    assert seen[0] != seen[1]
    for text, number in zip(seen, (first, second), strict=True):
        with opened("shop", editions(number).visible) as connection:
            count, amount = connection.execute(sql).fetchone()
        assert text.splitlines()[2].split() == [str(count), "|", f"{amount:g}"]


def test_it_keeps_the_rules_of_the_protocol(url: str) -> None:
    command = [sys.executable, "-m", "envs.cli", "check", url, "--env", "sql"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_readme_s_episode_is_a_real_one(url: str) -> None:
    readme = (ROOT / "envs" / "sql" / "README.md").read_text(encoding="utf-8")
    told = " ".join(readme.split())
    (query,) = re.findall(r'^query\(sql="(.*)"\)$', readme, re.MULTILINE)
    (answer,) = re.findall(r'^submit\(sql="(.*)"\)$', readme, re.MULTILINE)
    with Episode(url, "sql", split="validation", index=22) as episode:
        assert " ".join(episode.prompt().partition("\nLook")[0].split()) in told
        table = episode.call("describe", table="aircraft")["text"].partition(":\n")[0]
        assert " ".join(table.split()) in told
        assert " ".join(episode.call("query", sql=query)["text"].split()) in told
        assert episode.call("submit", sql=answer)["reward"] == 1.0
