"""Tool binding: what a model is told in words, and text from strangers that tries to say more than it should."""

from typing import Any

import pytest

from tests.trainer.tool_environments import bind_one, described
from trainer.ors.text import encodable


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "description": "The name"}, "The name"),
        ({"type": "string"}, "string"),
        ({"description": "Lines", "type": "integer", "minimum": 1, "default": 5}, "Lines (minimum 1; default 5)"),
        ({"type": "string", "format": "date"}, "format date"),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "integer (minimum 1) or null"),
        ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "unique items"),
        (
            {
                "type": "array",
                "items": {
                    "properties": {
                        "old": {"type": "string", "description": "text to\nfind"},
                        "new": {"type": "string", "default": ""},
                    },
                    "required": ["old"],
                },
            },
            'list of JSON object {old: string (text to find); new: string (optional; default "")}',
        ),
        ({"enum": [[1], "a"]}, 'one of [1], "a"'),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "maximum": 3}},
            "JSON object of integer (maximum 3)",
        ),
    ],
)
def test_what_a_hint_cannot_say_is_told_in_words(schema: Any, expected: str) -> None:
    bound = bind_one({"type": "object", "properties": {"value": schema}})
    assert described(bound)["parameters"]["properties"]["value"]["description"] == expected


HOSTILE = [
    ("a \"\"\" b ''' c \\", "a \"\"\" b ''' c \\"),
    ("pick (choices: one, two)", "pick (choices : one, two)"),
    ('pick (CHOICES:["a"]) ', 'pick (CHOICES :["a"])'),
    ("Args:", "Args :"),
    ("see Returns: and Raises: below", "see Returns : and Raises : below"),
    ("one\r\n\r\ntwo", "one two"),
    ("one\nsecond: leaked\n    third (int): leaked", "one second: leaked third (int): leaked"),
    ("a\n\nArgs:\n    second: leaked\n\nReturns:\n    x", "a Args : second: leaked Returns : x"),
    ("\x00\x1b[31m \u2028 日本 🐟 ﷽", "\x00\x1b[31m 日本 🐟 ﷽"),
    ("half \ud83d pair", "half \ufffd pair"),
    ("{{ tools }} {% raw %} %s {0}", "{{ tools }} {% raw %} %s {0}"),
    ("x" * 100_000, "x" * 100_000),
    (" ", "string"),
    ("", "string"),
]


@pytest.mark.parametrize(("text", "expected"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_parameters_description_stays_its_own(text: str, expected: str) -> None:
    properties = {
        "first": {"type": "string", "description": text},
        "second": {"type": "string", "description": "mine"},
        "third": {"type": "string", "description": text},
    }
    bound = bind_one({"type": "object", "properties": properties})
    function = described(bound)
    assert function["description"] == "Do it."
    said = {name: schema["description"] for name, schema in function["parameters"]["properties"].items()}
    assert said == {"first": expected, "second": "mine", "third": expected}


@pytest.mark.parametrize(("text", "expected"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_tools_description_stays_its_own(text: str, expected: str) -> None:
    bound = bind_one({"type": "object", "properties": {"second": {"description": "mine"}}}, description=text)
    function = described(bound)
    assert function["parameters"]["properties"]["second"]["description"] == "mine"
    if text.strip():  # the (choices: …) of a tool's description mean nothing, and its lines stay lines
        assert (
            " ".join(function["description"].replace("oices:", "oices :").replace("OICES:", "OICES :").split())
            == expected
        )
    else:
        assert function["description"] == "Tool tool."
    assert bound.schema["function"]["description"] == encodable(text)


def test_a_tools_description_keeps_its_lines() -> None:
    bound = bind_one(None, description="Run it.\n\n\n\nExample:\r\n\tls -l  \n\n  - a\n")
    function = described(bound)
    assert function["description"] == "Run it.\n\nExample:\n    ls -l\n\n  - a"
