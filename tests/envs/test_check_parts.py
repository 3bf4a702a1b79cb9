"""The parts of the check that must not err themselves: reading event streams, and making arguments from schemas."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.check import arguments
from envs.check.sse import Event, Parser

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
# Data without line ends, which make several lines of it.
lines = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)))
events = st.lists(st.builds(Event, st.sampled_from(["task_id", "chunk", "end"]), lines), max_size=5)


def parse(*pieces: bytes) -> list[Event]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)]


@given(events, st.sampled_from(["\n", "\r", "\r\n"]), st.data())
def test_events_come_out_as_they_went_in_wherever_the_bytes_are_cut(sent: list[Event], end: str, data: Any) -> None:
    stream = "".join(f"event: {event.name}{end}data: {event.data}{end}{end}" for event in sent).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    # A last carriage return may be half a line end: a byte more tells.
    assert parse(*pieces, b":") == sent


def test_one_space_after_the_colon_goes_and_no_more() -> None:
    assert parse(b"data:  two \n\n") == [Event("message", " two ")]
    assert parse(b"data:none\n\n") == [Event("message", "none")]


def test_several_lines_of_data_are_joined_with_line_feeds() -> None:
    assert parse(b"event: end\ndata: a\ndata\ndata: b\n\n") == [Event("end", "a\n\nb")]


def test_comments_are_counted_and_are_no_events() -> None:
    parser = Parser()
    assert parser.feed(b": ping\n\n: ping\n\nid: 1\nretry: 5\n\n") == []
    assert parser.comments == 2


def test_a_byte_order_mark_and_broken_utf8_break_nothing() -> None:
    assert parse(b"\xef\xbb\xbfdata: a\xff\n\n") == [Event("message", "a�")]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {}),
        ({}, {}),
        (TEXT, {"text": "ors-check"}),
        ({"properties": {"a": {"type": "integer", "exclusiveMinimum": 3}}, "required": ["a"]}, {"a": 4}),
        ({"properties": {"a": {"type": "number", "maximum": -2}}, "required": ["a"]}, {"a": -2}),
        ({"properties": {"a": {"type": "integer", "multipleOf": 5, "minimum": 7}}, "required": ["a"]}, {"a": 10}),
        ({"properties": {"a": {"type": ["null", "boolean"]}}, "required": ["a"]}, {"a": False}),
        ({"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}, {"a": "x"}),
        ({"properties": {"a": {"const": 7}}, "required": ["a"]}, {"a": 7}),
        (
            {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}}, "required": ["a"]},
            {"a": "ors-check"},
        ),
        ({"properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}, {"a": "ors"}),
        ({"properties": {"a": {"type": "string", "minLength": 11}}, "required": ["a"]}, {"a": "ors-checkxx"}),
        ({"properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]}, {"a": "2026-01-01"}),
        (
            {"properties": {"a": {"type": "array", "items": TEXT, "minItems": 2}}, "required": ["a"]},
            {"a": [{"text": "ors-check"}] * 2},
        ),
        (
            {"$defs": {"A/b": TEXT}, "properties": {"a": {"$ref": "#/$defs/A~1b"}}, "required": ["a"]},
            {"a": {"text": "ors-check"}},
        ),
        (
            {"properties": {"a": {"allOf": [TEXT, {"description": "x"}]}}, "required": ["a"]},
            {"a": {"text": "ors-check"}},
        ),
    ],
)
def test_the_smallest_valid_arguments(schema: Any, expected: dict[str, Any]) -> None:
    assert arguments.valid(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[0-9]+$"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nowhere"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}, "required": ["a"]},
        {"$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}, "required": ["t"]}},
         "properties": {"a": {"$ref": "#/$defs/T"}}, "required": ["a"]},
        {"type": "string"},
    ],
)  # fmt: skip
def test_no_arguments_where_none_can_be_made(schema: Any) -> None:
    assert arguments.valid(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "integer", "multipleOf": 0}}, "required": ["a"]},
        {"properties": {"a": {"type": "array", "minItems": "3"}}, "required": ["a"]},
        {"properties": {"a": {"type": "number", "minimum": "1"}}, "required": ["a"]},
        {"properties": {"a": {"enum": 5}}, "required": ["a"]},
        {"properties": {"a": {"anyOf": 5}}, "required": ["a"]},
        {"properties": {"a": {"allOf": [5]}}, "required": ["a"]},
        {"properties": {"a": {"$ref": 5}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "maxLength": "a"}}, "required": ["a"]},
        {"properties": ["x"], "required": ["x"]},
        {"properties": {"x": {}}, "required": True},
        {"$schema": 5, "properties": {"x": {}}},
        {"properties": 5, "required": ["x"]},
    ],
)
def test_an_invalid_schema_has_a_problem_and_no_arguments(schema: Any) -> None:
    assert arguments.problem(schema)
    assert arguments.valid(schema) is None
    assert list(arguments.with_text(schema, "hi")) == []
    assert (arguments.waiting(schema, 1.0), arguments.wrong(schema)) == (None, None)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"allOf": [True]}}, "required": ["a"]},
        {"properties": {"a": {"type": "integer", "minimum": 1e400}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "minLength": 10**12}}, "required": ["a"]},
        {"properties": {"a": {"type": "array", "minItems": 10**9}}, "required": ["a"]},
        {"properties": {f"p{n}": {"$ref": "#"} for n in range(10)}, "required": [f"p{n}" for n in range(10)]},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}, "required": ["a"]},
    ],
)
def test_a_valid_schema_that_asks_too_much_has_no_arguments(schema: Any) -> None:
    assert not arguments.problem(schema)
    assert arguments.valid(schema) is None


def test_a_reference_to_another_host_is_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        schema = {"properties": {"a": {"$ref": f"http://127.0.0.1:{other.getsockname()[1]}/s"}}, "required": ["a"]}
        assert arguments.valid(schema) is None
        with pytest.raises(BlockingIOError):
            other.accept()


def test_text_goes_into_every_string_that_is_free() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"type": "string"}}
    }
    assert list(arguments.with_text(schema, "hi")) == [{"a": "hi"}, {"c": "hi"}]


def test_a_number_that_means_time_is_found() -> None:
    schema = {"properties": {"delay_s": {"type": "number"}, "text": {"type": "string"}}, "required": ["text"]}
    assert arguments.waiting(schema, 2.5) == {"text": "ors-check", "delay_s": 2.5}
    assert arguments.waiting({"properties": {"seconds": {"type": "integer"}}}, 2.5) == {"seconds": 3}
    assert arguments.waiting({"properties": {"seconds": {"type": "integer", "maximum": 2}}}, 2.5) is None
    assert arguments.waiting({"properties": {"wait": {"type": "string"}}}, 2.5) is None


def test_wrong_arguments_are_wrong_in_every_reading() -> None:
    assert arguments.wrong(TEXT) == {"text": {"ors-check": ["ors-check"]}}
    assert arguments.wrong({"properties": {"a": {"type": "object"}}}) == {"a": "ors-check"}
    assert arguments.wrong({"properties": {"a": {}}, "required": ["a"]}) == {}
    assert arguments.wrong({"properties": {"a": {}}}) is None
    assert arguments.wrong(None) is None


def test_a_tasks_strings_and_numbers_are_found() -> None:
    assert list(arguments.leaves({"a": ["x", 1, True, None], "b": {"c": 2.5}})) == ["x", 1, 2.5]
