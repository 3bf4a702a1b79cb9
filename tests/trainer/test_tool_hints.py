"""Tool binding: type hints say what the schema says, as far as `get_json_schema` lets them, and never less."""

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainer.tool_environments import bind_one, described, without_nullable


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": "number"}, {"type": "number"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "integer"}}),
        (
            {"type": "object", "additionalProperties": {"type": "boolean"}},
            {"type": "object", "additionalProperties": {"type": "boolean"}},
        ),
        ({"type": "object", "properties": {"a": {}}}, {"type": "object"}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, {"type": "integer", "enum": [1, 2]}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["integer", "string"]}),
        (
            {"prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            {"prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1},
            {"type": "array", "items": {"type": "integer"}},
        ),
        ({"$ref": "#/$defs/color"}, {"type": "string", "enum": ["red"]}),
        ({"allOf": [{"$ref": "#/$defs/color"}]}, {"type": "string", "enum": ["red"]}),
        ({"$ref": "#/$defs/list"}, {"type": "array", "items": {"type": "array"}}),
        ({"anyOf": [{"type": "integer"}, {}]}, {}),
        ({}, {}),
    ],
)
def test_the_closest_hint(schema: Any, expected: Any) -> None:
    definitions = {
        "color": {"enum": ["red"]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/list"}},
    }
    bound = bind_one({"type": "object", "properties": {"value": schema}, "$defs": definitions})
    value = described(bound)["parameters"]["properties"]["value"]
    assert {key: said for key, said in value.items() if key != "description"} == expected


SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, "a", "b", ""])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": TYPES}),
    st.fixed_dictionaries({"type": st.lists(TYPES, min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": VALUES}),
    st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"])}),
    st.booleans(),
)


def _branches_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few, sizes = st.lists(inner, min_size=1, max_size=3), st.integers(0, 3)
    keys = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    bounds = {"minItems": sizes, "maxItems": sizes}
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner, **bounds}),
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": few}, optional={"items": inner, **bounds}),
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={"properties": keys, "additionalProperties": inner, "patternProperties": keys},
        ),
        *(st.fixed_dictionaries({keyword: few}) for keyword in ("anyOf", "oneOf", "allOf")),
    )


SCHEMAS = st.recursive(LEAVES, _branches_of, max_leaves=6)


@settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, a=SCHEMAS, b=LEAVES, values=st.lists(VALUES, min_size=5, max_size=10))
def test_what_the_schema_allows_the_hint_allows(schema: Any, a: Any, b: Any, values: list[Any]) -> None:
    definitions = {"a": a, "b": {"type": "object"} if isinstance(b, dict) and "$ref" in b else b}
    root = {"type": "object", "properties": {"value": schema}, "$defs": definitions}
    theirs = jsonschema.Draft202012Validator(root)
    ours = jsonschema.Draft202012Validator(without_nullable(described(bind_one(root))["parameters"]))
    for value in values:
        arguments = {"value": value}
        try:
            allowed = theirs.is_valid(arguments)
        except RecursionError:  # a reference that leads nowhere but to itself
            continue
        assert not allowed or ours.is_valid(arguments)
