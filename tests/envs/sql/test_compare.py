"""When two results count as the same answer."""

from __future__ import annotations

import pytest

from envs.sql.compare import Row, overlap, same_result

A: Row = ("Lyon", 3)
B: Row = ("Turin", 5)


def test_order_counts_only_where_it_is_asked_for() -> None:
    assert same_result([A, B], [B, A], ordered=False)
    assert not same_result([A, B], [B, A], ordered=True)
    assert same_result([A, B], [A, B], ordered=True)


def test_how_often_a_row_occurs_counts() -> None:
    assert not same_result([A, A, B], [A, B, B], ordered=False)
    assert not same_result([A, B], [A, A, B], ordered=False)
    assert same_result([A, A, B], [A, B, A], ordered=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [(2.345, 2.35), (5, 5.0), (1e12, 1e12 + 100), ("2024", 2024), (2024, "2024"), ("-1.5", -1.5), (None, None)],
)
def test_values_that_are_the_same(one: str | float | None, other: str | float | None) -> None:
    assert same_result([[one]], [[other]], ordered=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2.34, 2.35),
        (5, 6),
        ("a", "A"),
        ("a", "a "),
        (None, 0),
        (None, ""),
        ("1e3", 1000),
        ("nan", float("nan")),
        ("", 0),
    ],
)
def test_values_that_are_not(one: str | float | None, other: str | float | None) -> None:
    assert not same_result([[one]], [[other]], ordered=False)


def test_columns_are_compared_by_place_and_number() -> None:
    assert not same_result([(1, 2)], [(2, 1)], ordered=False)
    assert not same_result([(1, 2)], [(1,)], ordered=False)


def test_empty_results_are_equal_to_each_other_only() -> None:
    assert same_result([], [], ordered=False)
    assert not same_result([], [A], ordered=False)


@pytest.mark.parametrize(
    ("answer", "share"), [([A, B], 1.0), ([B, A], 1.0), ([A], 2 / 3), ([A, A], 0.5), ([], 0.0), ([("x", 1)], 0.0)]
)
def test_overlap_is_the_f1_of_rows(answer: list[Row], share: float) -> None:
    assert overlap(answer, [A, B]) == pytest.approx(share)
