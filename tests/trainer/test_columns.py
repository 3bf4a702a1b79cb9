"""Whatever JSON a task holds, its fields become columns that Arrow takes and gives back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.ors.spec import RESERVED, metadata_columns

TEXT = st.text(st.characters(), max_size=8)  # with halves of surrogate pairs, which JSON can carry
NUMBERS = st.integers() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["a", "b", "target", "prompt", "task_prompt", "split", "input_ids", "image"]) | TEXT


def same(kept: Any, value: Any) -> bool:
    """Whether a cell is the value, or JSON text of it."""
    if kept == value and isinstance(kept, bool) == isinstance(value, bool):
        return True
    return isinstance(kept, str) and bool(json.loads(kept) == value)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=4))
def test_no_metadata_breaks_the_table_and_none_is_lost(tasks: list[dict[str, Any]]) -> None:
    columns = metadata_columns(tasks)
    table = Dataset.from_dict({"prompt": ["p"] * len(tasks), **columns})
    keys = {key for task in tasks for key in task}
    assert len(columns) == len(keys)
    assert not RESERVED & set(columns)
    names = dict(zip(sorted(keys, key=lambda k: (k in RESERVED, k)), columns, strict=True))
    rows = table.to_list()
    for row, task in zip(rows, tasks, strict=True):
        for key, value in task.items():
            assert same(row[names[key]], value), (key, value, row)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1, 2], [1, 2]),
        (["a", None], ["a", None]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ([{"a": 1}, {"b": 2}], ['{"a": 1}', '{"b": 2}']),
        ([1, "a"], ["1", '"a"']),
        ([{}, None], ["{}", None]),
        ([2**80], [str(2**80)]),
        ([True, 1], ["true", "1"]),
        ([[True], [1]], ["[true]", "[1]"]),
        ([0.5, 2**60 + 1], ["0.5", str(2**60 + 1)]),
        (["\ud800"], ['"\\ud800"']),
        ([{"a\0b": 1}], ['{"a\\u0000b": 1}']),
    ],
)
def test_a_column_is_kept_as_it_is_or_as_json(values: list[Any], kept: list[Any]) -> None:
    columns = metadata_columns([{"field": value} for value in values])
    assert Dataset.from_dict(columns)["field"][:] == kept


@pytest.mark.parametrize(
    ("key", "name"), [("a\0b", "a\\x00b"), ("\ud800", "\\ud800"), ("", ""), ("prompt", "task_prompt")]
)
def test_a_column_has_its_fields_name_where_that_can_be(key: str, name: str) -> None:
    columns = metadata_columns([{key: 1}])
    assert Dataset.from_dict(columns).column_names == [name]
