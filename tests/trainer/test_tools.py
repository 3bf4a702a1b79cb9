"""Tool binding, over a corpus of schemas, with the programs that read the result and a server that takes the calls."""

import inspect
import json
import keyword
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainer.tool_schemas import CASES, Case, models, servers
from trainer.ors.tools import BoundTool, ToolSpec, bind

Describe = Callable[[Callable[..., Any]], dict[str, Any]]


class WireEnvironment:
    """An environment whose tools are called over HTTP; a call's result is what the server received."""

    url = ""

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        body = json.dumps({"tool": name, "arguments": arguments}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=30) as response:
            text: str = response.read().decode()
        return text


class LocalEnvironment:
    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        return json.dumps({"tool": name, "arguments": arguments})


def equip(base: type, *tools: BoundTool) -> Any:
    """An instance of a class that has the tools for methods."""
    return type("Equipped", (base,), {tool.attribute: tool.function for tool in tools})()


def bind_one(schema: Any, name: str = "tool", description: Any = "Do it.") -> BoundTool:
    (bound,) = bind([ToolSpec(name, description, schema)])
    return bound


@pytest.fixture(scope="module")
def recorder_url() -> Iterator[str]:
    program = Path(__file__).with_name("wire_recorder.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def get_json_schema() -> Describe:
    from transformers.utils import get_json_schema

    return get_json_schema  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def render() -> Callable[[Any], list[Any]]:
    """Renders one tool with the demo model's chat template and gives back what the model would read between <tools>."""
    from transformers.utils.chat_template_utils import render_jinja_template
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    def rendered(tool: Any) -> list[Any]:
        conversation = [{"role": "user", "content": "Go."}]
        (text,), _ = render_jinja_template(
            [conversation], tools=[tool], chat_template=qwen3_instruct_2507_chat_template
        )
        lines = text.split("within <tools></tools> XML tags:\n<tools>\n")[1].split("\n</tools>")[0]
        return [json.loads(line) for line in lines.split("\n")]

    return rendered


corpus = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_the_corpus_is_large_and_its_calls_are_valid() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
    for case in [*models.CASES, *servers.CASES]:
        jsonschema.validate(case.arguments, without_nullable(case.schema))


@corpus
def test_get_json_schema_agrees_with_the_schema(case: Case, get_json_schema: Describe) -> None:
    bound = bind_one(case.schema, case.name, case.description)
    described = get_json_schema(getattr(equip(WireEnvironment, bound), bound.attribute))["function"]
    assert described["name"] == bound.attribute
    parameters = described["parameters"]
    assert set(parameters["properties"]) == set(case.expected_parameters)
    assert set(parameters.get("required", [])) == {name for name, needed in case.expected_parameters.items() if needed}
    assert all(schema["description"].strip() for schema in parameters["properties"].values())


@corpus
def test_hints_are_never_narrower_than_the_schema(case: Case, get_json_schema: Describe) -> None:
    bound = bind_one(case.schema, case.name, case.description)
    method = getattr(equip(LocalEnvironment, bound), bound.attribute)
    parameters = get_json_schema(method)["function"]["parameters"]
    by_wire_name = {wire: safe for safe, wire in wire_names(method, case).items()}
    arguments = {by_wire_name.get(name, name): value for name, value in case.arguments.items()}
    jsonschema.validate(arguments, without_nullable(parameters))


@corpus
def test_a_call_arrives_on_the_wire_unchanged(case: Case, recorder_url: str) -> None:
    bound = bind_one(case.schema, case.name, case.description)
    environment = equip(WireEnvironment, bound)
    environment.url = recorder_url
    method = getattr(environment, bound.attribute)
    sent = json.dumps({"tool": case.name, "arguments": case.arguments})
    assert method(**case.arguments) == sent

    by_wire_name = {wire: safe for safe, wire in wire_names(method, case).items()}
    assert method(**{by_wire_name.get(name, name): value for name, value in case.arguments.items()}) == sent


@corpus
def test_the_chat_template_shows_the_tool(
    case: Case, get_json_schema: Describe, render: Callable[[Any], list[Any]]
) -> None:
    bound = bind_one(case.schema, case.name, case.description)
    method = getattr(equip(WireEnvironment, bound), bound.attribute)
    assert render(method) == [get_json_schema(method)]
    assert render(bound.schema) == [bound.schema]
    assert bound.schema["function"]["parameters"] == (case.schema or {"type": "object", "properties": {}})


def wire_names(method: Callable[..., str], case: Case) -> dict[str, str]:
    """The wire name of each parameter in the signature, found by calling the tool in a class without a server."""
    tools = bind([case.spec])
    local = getattr(equip(LocalEnvironment, *tools), tools[0].attribute)
    names = {}
    for parameter in inspect.signature(method).parameters:
        (names[parameter],) = json.loads(local(**{parameter: 0}))["arguments"]
    return names


def without_nullable(schema: Any) -> Any:
    """`nullable`, which get_json_schema writes for optional types, in the terms of JSON Schema."""
    if isinstance(schema, list):
        return [without_nullable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: without_nullable(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


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
        ({}, {}),
    ],
)
def test_the_closest_hint(schema: Any, expected: Any, get_json_schema: Describe) -> None:
    definitions = {
        "color": {"enum": ["red"]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/list"}},
    }
    bound = bind_one({"type": "object", "properties": {"value": schema}, "$defs": definitions})
    described = get_json_schema(equip(WireEnvironment, bound).tool)
    value = described["function"]["parameters"]["properties"]["value"]
    assert {key: said for key, said in value.items() if key != "description"} == expected


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
def test_what_a_hint_cannot_say_is_told_in_words(schema: Any, expected: str, get_json_schema: Describe) -> None:
    bound = bind_one({"type": "object", "properties": {"value": schema}})
    described = get_json_schema(equip(WireEnvironment, bound).tool)
    assert described["function"]["parameters"]["properties"]["value"]["description"] == expected


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
def test_a_parameters_description_stays_its_own(text: str, expected: str, get_json_schema: Describe) -> None:
    properties = {
        "first": {"type": "string", "description": text},
        "second": {"type": "string", "description": "mine"},
        "third": {"type": "string", "description": text},
    }
    bound = bind_one({"type": "object", "properties": properties})
    described = get_json_schema(equip(WireEnvironment, bound).tool)["function"]
    assert described["description"] == "Do it."
    said = {name: schema["description"] for name, schema in described["parameters"]["properties"].items()}
    assert said == {"first": expected, "second": "mine", "third": expected}


@pytest.mark.parametrize(("text", "expected"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_tools_description_stays_its_own(text: str, expected: str, get_json_schema: Describe) -> None:
    bound = bind_one({"type": "object", "properties": {"second": {"description": "mine"}}}, description=text)
    described = get_json_schema(equip(WireEnvironment, bound).tool)["function"]
    assert described["parameters"]["properties"]["second"]["description"] == "mine"
    if text.strip():  # the (choices: …) of a tool's description mean nothing, and its lines stay lines
        assert (
            " ".join(described["description"].replace("oices:", "oices :").replace("OICES:", "OICES :").split())
            == expected
        )
    else:
        assert described["description"] == "Tool tool."
    assert bound.schema["function"]["description"] == text


def test_a_tools_description_keeps_its_lines(get_json_schema: Describe) -> None:
    bound = bind_one(None, description="Run it.\n\n\n\nExample:\r\n\tls -l  \n\n  - a\n")
    described = get_json_schema(equip(WireEnvironment, bound).tool)["function"]
    assert described["description"] == "Run it.\n\nExample:\n    ls -l\n\n  - a"


@pytest.mark.parametrize(
    ("names", "attributes"),
    [
        (["echo"], ["echo"]),
        (["web-search", "a.b", "a/b c"], ["web_search", "a_b", "a_b_c"]),
        (["reset", "get_reward", "_x", "__init__", "_call"], ["reset_", "get_reward_", "x", "init__", "call"]),
        (["class", "None", "match"], ["class_", "None_", "match"]),
        (["", "_", "🐟", "3d"], ["tool", "tool_2", "tool_3", "tool_3d"]),
        (["日本", "größe"], ["日本", "größe"]),
        (["x" * 200, "x" * 100], ["x" * 64, "x" * 62 + "_2"]),
        (["a-b", "a_b", "a.b"], ["a_b_2", "a_b", "a_b_3"]),
        (["reset", "reset_"], ["reset__2", "reset_"]),
        (["rewards", "finished"], ["rewards_", "finished_"]),
        (["echo", "echo"], ["echo"]),
    ],
)
def test_attributes_are_safe_public_and_unique(names: list[str], attributes: list[str]) -> None:
    tools = bind([ToolSpec(name, "", None) for name in names], reserved={"rewards", "finished"})
    assert [tool.attribute for tool in tools] == attributes
    assert [tool.function.__name__ for tool in tools] == attributes
    assert [tool.spec.name for tool in tools] == list(dict.fromkeys(names))


def test_of_two_tools_with_one_name_the_first_wins() -> None:
    (tool,) = bind([ToolSpec("a", "first", None), ToolSpec("a", "second", {"properties": {"b": {}}})])
    assert tool.spec.description == "first"


def test_trl_finds_the_tools_on_the_class() -> None:
    tools = bind([ToolSpec(name, "", {"properties": {"a": {}}}) for name in ("echo", "_hidden", "reset")])
    environment = equip(WireEnvironment, *tools)
    found = dict(inspect.getmembers(type(environment), predicate=inspect.isfunction))
    assert {name for name in found if not name.startswith("_")} == {"echo", "hidden", "reset_"}
    assert not any(inspect.iscoroutinefunction(getattr(environment, name)) for name in found)


def test_the_signature_names_required_parameters_first_and_shows_defaults() -> None:
    properties = {
        "a": {"type": "integer", "default": 3},
        "b": {"type": "string"},
        "c": {"type": "array", "default": []},
        "d": {"type": "number"},
    }
    bound = bind_one({"type": "object", "properties": properties, "required": ["d", "b"]})
    signature = inspect.signature(equip(WireEnvironment, bound).tool)
    assert list(signature.parameters) == ["b", "d", "a", "c"]
    assert signature.parameters["a"].default == 3
    assert signature.parameters["c"].default is ...
    assert signature.parameters["b"].default is inspect.Parameter.empty
    assert signature.return_annotation is str


def test_only_given_arguments_are_sent_and_unknown_ones_are_passed_on() -> None:
    bound = bind_one({"type": "object", "properties": {"a": {"default": 1}, "b": {}}, "required": ["b"]})
    method = equip(LocalEnvironment, bound).tool
    assert json.loads(method())["arguments"] == {}
    assert json.loads(method(c=1, a=None))["arguments"] == {"c": 1, "a": None}


def test_an_argument_given_under_both_names_is_sent_under_both() -> None:
    bound = bind_one({"type": "object", "properties": {"from": {}}})
    method = equip(LocalEnvironment, bound).tool
    assert json.loads(method(from_=1))["arguments"] == {"from": 1}
    assert json.loads(method(**{"from_": 1, "from": 2}))["arguments"] == {"from_": 1, "from": 2}


def test_the_kept_schema_is_the_servers_and_a_copy() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "x-more": [{"b": None}]}
    bound = bind_one(schema, name="a-b")
    assert bound.schema == {
        "type": "function",
        "function": {"name": "a_b", "description": "Do it.", "parameters": schema},
    }
    schema["properties"]["a"]["enum"].append(2)  # type: ignore[index]
    assert bound.schema["function"]["parameters"]["properties"]["a"]["enum"] == [1]


def test_a_tool_spec_can_be_pickled() -> None:
    for case in CASES:
        assert pickle.loads(pickle.dumps(case.spec)) == case.spec


def test_a_schema_deeper_than_python_recurses_binds(get_json_schema: Describe) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    bound = bind_one({"type": "object", "properties": {"a": schema}})
    assert get_json_schema(equip(WireEnvironment, bound).tool)
    assert json.dumps(bound.schema)


def test_binding_needs_only_the_standard_library() -> None:
    program = "import sys, trainer.ors.tools; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    ours = set(loaded) - sys.stdlib_module_names - set(baseline_modules())
    assert ours == {"trainer"}


def baseline_modules() -> list[str]:
    """What an interpreter of this environment loads by itself, through .pth files."""
    program = "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


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


@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(tools=TOOLS, argument=JSON)
def test_whatever_a_server_lists_binds(tools: list[ToolSpec], argument: Any, get_json_schema: Describe) -> None:
    bound = bind(tools)
    assert [tool.spec.name for tool in bound] == list(dict.fromkeys(t.name for t in tools if isinstance(t.name, str)))
    assert len({tool.attribute for tool in bound}) == len(bound)
    environment = equip(LocalEnvironment, *bound)
    for tool in bound:
        assert is_public_identifier(tool.attribute)
        json.dumps(tool.schema)
        method = getattr(environment, tool.attribute)
        parameters = get_json_schema(method)["function"]["parameters"]
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
    assert isinstance(schema, Mapping)
    assert json.dumps(name) in json.dumps(schema)
