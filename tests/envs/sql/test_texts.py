"""Every text that a model is told is small and keeps to its lines, whatever its queries put into it."""

from __future__ import annotations

import pytest

from envs.sql.compare import Cell
from envs.sql.data import VISIBLE
from envs.sql.domains import DOMAINS
from envs.sql.sandbox import Result
from envs.sql.schema import Domain
from envs.sql.tables import SAMPLE_ROWS, domain_text, error_text, result_text, table_text
from tests.envs.sql.databases import opened
from tests.episode import Episode


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT json_extract('{}', printf('%.90000c', 'x'))",
        "SELECT json_extract('{}', (SELECT group_concat(name) FROM customers))",
        f"SELECT {'x' * 9000}",
        f"SELECT * FROM \"{'x' * 9000}\"",
        "SELECT 1 ORDER BY " + "x" * 9000,
    ],
)  # fmt: skip
def test_an_error_is_cut(url: str, sql: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        asked, submitted = episode.call("query", sql=sql)["text"], episode.call("submit", sql=sql)["text"]
    assert asked.startswith("Error: ") and asked.endswith("…") and len(asked) == 300
    assert submitted == f"Wrong. {asked}"


def test_an_error_is_one_line_without_control_characters(url: str) -> None:
    with Episode(url, "sql", split="train", index=0) as episode:
        told = episode.call("query", sql='SELECT 1 FROM "a\x1b[31m\u2028b"')["text"]
    assert told == r"Error: no such table: a\x1b[31m b"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("one\ntwo", r"one\ntwo"),
        ("one\r\ntwo", r"one\r\ntwo"),
        ("\x1b[2Jgone\x00\x07\t\x7f", r"\x1b[2Jgone\x00\x07\t\x7f"),
        ("\x85\u2028\u2029\u202e\ufeff", r"\x85\u2028\u2029\u202e\ufeff"),
        ("\ud800", r"\ud800"),
        ("Café, 東京", "Café, 東京"),
    ],
)
def test_a_value_cannot_break_its_line(value: Cell, shown: str) -> None:
    text = result_text(Result(["a\nb", "c"], [[value, 1]], 1, True))
    assert [line.isprintable() for line in text.split("\n")] == [True] * 4
    assert text.split("\n")[0].split(" | ")[0].strip() == r"a\nb"
    assert text.split("\n")[2] == f"{shown} | 1"


def test_an_error_of_any_text_is_small() -> None:
    assert error_text(ValueError("no such column: x")) == "Error: no such column: x"
    assert len(error_text(ValueError("\x00" * 1000))) == 300


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_descriptions_stay_under_4000_characters(domain: Domain) -> None:
    assert len(domain_text(domain)) < 4000
    for edition in range(VISIBLE):
        with opened(domain.name, edition) as connection:
            for table in domain.tables:
                rows = connection.execute(f"SELECT * FROM {table.name} LIMIT {SAMPLE_ROWS}").fetchall()
                assert len(table_text(table, rows)) < 4000
