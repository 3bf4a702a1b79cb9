"""The answers to questions, found without SQL: every kind of question once more, in pandas."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import singledispatch
from typing import Any

import pandas as pd

from envs.sql.compare import Row
from envs.sql.questions import Question, level1, level2, level3, level4, level5
from envs.sql.questions.filters import Filter
from envs.sql.schema import Link
from tests.envs.sql.databases import Frames

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_AGGREGATE = {"AVG": "mean", "SUM": "sum", "MIN": "min", "MAX": "max"}


def answer(question: Question, frames: Frames) -> list[Row]:
    """Return the rows that answer a question; their order matters only where the question asks for one."""
    return [[_plain(cell) for cell in row] for row in _answer(question, frames)]


def kept(frame: pd.DataFrame, conditions: Sequence[Filter]) -> pd.DataFrame:
    """Return the rows that fulfil the conditions."""
    for condition in conditions:
        frame = frame[_mask(frame[condition.column.name], condition)]
    return frame


def _mask(values: pd.Series, condition: Filter) -> pd.Series:
    if condition.operator == "null":
        return values.isna()
    if condition.operator == "not null":
        return values.notna()
    if condition.operator == "year":
        return pd.to_datetime(values).dt.year == condition.value
    if condition.column.kind == "day":
        return _COMPARE[condition.operator](pd.to_datetime(values), pd.Timestamp(condition.value))
    return _COMPARE[condition.operator](values, condition.value)


def children(link: Link, frames: Frames, conditions: Sequence[Filter]) -> pd.Series:
    """Return the numbers of the parents of the child rows that fulfil the conditions."""
    return kept(frames[link.child.name], conditions)[link.column.name]


def _plain(cell: Any) -> Any:
    if pd.isna(cell):
        return None
    return cell.item() if hasattr(cell, "item") else cell


def _title(link: Link) -> str:
    assert link.parent.title
    return link.parent.title.name


@singledispatch
def _answer(question: Question, frames: Frames) -> list[Any]:
    raise AssertionError(f"{type(question).__name__} has no independent answer")


@_answer.register
def _(question: level1.CountWhere, frames: Frames) -> list[Any]:
    return [[len(kept(frames[question.table.name], question.conditions))]]


@_answer.register
def _(question: level1.NamesWhere, frames: Frames) -> list[Any]:
    assert question.table.title
    names = list(kept(frames[question.table.name], question.conditions)[question.table.title.name])
    return [[name] for name in (sorted(names) if question.ordered else names)]


@_answer.register
def _(question: level2.AggregateBy, frames: Frames) -> list[Any]:
    groups = kept(frames[question.table.name], question.conditions).groupby(question.category.name)
    return list(groups[question.number.name].agg(_AGGREGATE[question.function]).items())


@_answer.register
def _(question: level2.CountBy, frames: Frames) -> list[Any]:
    counts = kept(frames[question.table.name], question.conditions)[question.category.name].value_counts()
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return ranked[:1] if isinstance(question, level2.LargestGroup) else ranked


@_answer.register
def _(question: level2.CountByYear, frames: Frames) -> list[Any]:
    days = pd.to_datetime(kept(frames[question.table.name], question.conditions)[question.day.name])
    return list(days.dt.year.value_counts().items())


@_answer.register
def _(question: level3.CountJoined, frames: Frames) -> list[Any]:
    parents = kept(frames[question.link.parent.name], question.of_parent)["id"]
    return [[int(children(question.link, frames, question.of_child).isin(parents).sum())]]


@_answer.register
def _(question: level3.AggregateByParent, frames: Frames) -> list[Any]:
    rows = kept(frames[question.link.child.name], question.conditions)
    values = rows.groupby(question.link.column.name)[question.number.name].agg(_AGGREGATE[question.function])
    names = frames[question.link.parent.name].set_index("id")[_title(question.link)]
    return [[names[parent], value] for parent, value in values.items()]


@_answer.register
def _(question: level3.CountPerParent, frames: Frames) -> list[Any]:
    counts = children(question.link, frames, question.conditions).value_counts()
    parents = frames[question.link.parent.name]
    return [
        [name, counts.get(number, 0)]
        for number, name in zip(parents["id"], parents[_title(question.link)], strict=True)
    ]


@_answer.register
def _(question: level3.CountOverTwoJoins, frames: Frames) -> list[Any]:
    first, second = question.first, question.second
    base = frames[first.child.name]
    near = frames[first.parent.name].set_index("id").loc[base[first.column.name]]
    source = near if second.child == first.parent else base
    far = kept(frames[second.parent.name], question.conditions)["id"]
    groups = near[question.category.name].reset_index(drop=True)
    return list(groups[source[second.column.name].isin(far).to_numpy()].value_counts().items())


@_answer.register
def _(question: level4.AboveAverage, frames: Frames) -> list[Any]:
    frame = frames[question.table.name]
    rows = kept(frame, question.conditions)
    shown = question.table.title.name if question.table.title else "id"
    values, average = rows[question.number.name], frame[question.number.name].mean()
    return [[name] for name in rows[_COMPARE[question.comparison](values, average)][shown]]


@_answer.register
def _(question: level4.ParentsHaving, frames: Frames) -> list[Any]:
    counts = children(question.link, frames, question.conditions).value_counts()
    parents = frames[question.link.parent.name]
    enough = parents["id"].map(counts).fillna(0) >= question.least
    return [[name] for name in parents[enough][_title(question.link)]]


@_answer.register
def _(question: level4.ParentsWithout, frames: Frames) -> list[Any]:
    parents = frames[question.link.parent.name]
    alone = ~parents["id"].isin(children(question.link, frames, question.conditions))
    return [[name] for name in parents[alone][_title(question.link)]]


@_answer.register
def _(question: level4.DaysBetween, frames: Frames) -> list[Any]:
    rows = kept(frames[question.table.name], question.conditions)
    days = (pd.to_datetime(rows[question.end.name]) - pd.to_datetime(rows[question.end.after])).dt.days
    return [[int(_COMPARE[question.comparison](days, question.days).sum())]]


@_answer.register
def _(question: level4.WithinDays, frames: Frames) -> list[Any]:
    until = date.fromisoformat(question.until)
    period = {str(until - timedelta(days)) for days in range(question.days)}
    return [[int(frames[question.table.name][question.day.name].isin(period).sum())]]


@_answer.register
def _(question: level5.TopPerGroup, frames: Frames) -> list[Any]:
    assert question.table.title
    columns = [question.category.name, question.table.title.name, question.number.name]
    rows = kept(frames[question.table.name], question.conditions)[columns]
    ranked = rows.sort_values([columns[2], columns[1]], ascending=[False, True])
    return ranked.groupby(columns[0]).head(question.places).to_numpy(dtype=object).tolist()


@_answer.register
def _(question: level5.RunningTotal, frames: Frames) -> list[Any]:
    rows = kept(frames[question.table.name], question.conditions)
    totals = rows.groupby(rows[question.day.name].str[:7])[question.number.name].sum().sort_index().cumsum()
    return list(totals.items())


@_answer.register
def _(question: level5.MonthlyChange, frames: Frames) -> list[Any]:
    rows = kept(frames[question.table.name], question.conditions)
    counts = rows[question.day.name].str[:7].value_counts().sort_index()
    return [[month, count, change] for (month, count), change in zip(counts.items(), counts.diff(), strict=True)]


@_answer.register
def _(question: level5.NamesInSets, frames: Frames) -> list[Any]:
    one, two = (set(children(link, frames, [condition])) for link, condition in (question.first, question.second))
    numbers = {"UNION": one | two, "INTERSECT": one & two, "EXCEPT": one - two}[question.operator]
    parents = frames[question.first[0].parent.name]
    return [[name] for name in parents[parents["id"].isin(numbers)][_title(question.first[0])]]


@_answer.register
def _(question: level5.ShareOfTotal, frames: Frames) -> list[Any]:
    rows = kept(frames[question.table.name], question.conditions)
    sums = rows.groupby(question.category.name)[question.number.name].sum()
    return list((100 * sums / sums.sum()).items())
