"""Tool binding: whatever JSON a server lists for tools, it binds."""

import inspect
import json
import keyword
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainer.tool_environments import described, method_of
from trainer.ors.tools import ToolSpec, bind

KEYWORDS = [
    *("type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"),
    *("$defs", "nullable", "description", "default", "minimum", "maxItems", "minItems", "additionalProperties"),
    *("patternProperties", "additionalItems", "format", "examples", "uniqueItems", "exclusiveMinimum", "pattern"),
]
TEXTS = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(), max_size=6),  # half surrogate pairs too
    st.sampled_from(["object", "array", "string", "null", "#", "#/$defs/a", "#/properties/a", "a", "Args:", "self"]),
    st.lists(st.sampled_from(["Args:", "Returns:", "(choices:", ")", "\n", " ", "a", "a:", "[1]"])).map("".join),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), TEXTS), inner, max_size=5),
    ),
    max_leaves=25,
)
OBJECT_SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(TEXTS, JSON, max_size=4)},
    optional={"required": st.lists(TEXTS, max_size=3), "$defs": st.dictionaries(TEXTS, JSON, max_size=3)},
)
TOOLS = st.lists(st.builds(ToolSpec, st.one_of(TEXTS, SCALARS), JSON, st.one_of(JSON, OBJECT_SCHEMAS)), max_size=4)


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(tools=TOOLS, argument=JSON)
def test_whatever_a_server_lists_binds(tools: list[ToolSpec], argument: Any) -> None:
    bound = bind(tools)
    assert [tool.spec.name for tool in bound] == list(dict.fromkeys(t.name for t in tools if isinstance(t.name, str)))
    assert len({tool.attribute for tool in bound}) == len(bound)
    for tool in bound:
        assert is_public_identifier(tool.attribute)
        json.dumps(tool.schema)
        method = method_of(tool)
        parameters = described(tool)["parameters"]
        assert list(parameters["properties"]) == list(inspect.signature(method).parameters)
        for parameter in parameters["properties"]:
            sent = json.loads(method(**{parameter: argument}))
            assert sent["tool"] == tool.spec.name
            assert json.dumps(list(sent["arguments"].values())) == json.dumps([argument])
            assert_is_property(tool.spec.input_schema, *sent["arguments"])


def is_public_identifier(name: str) -> bool:
    return (
        name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" and name not in ("reset", "get_reward")
    )


def assert_is_property(schema: Any, name: str) -> None:
    """The name stands somewhere in the schema: it was not made up."""
    assert isinstance(schema, dict)
    assert json.dumps(name) in json.dumps(schema)
