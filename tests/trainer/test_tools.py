"""Tool binding: names, signatures, and what a call sends."""

import inspect
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from tests.trainer.tool_environments import LocalEnvironment, bind_one, described, equip, method_of
from tests.trainer.tool_schemas import CASES
from trainer.ors.tools import ToolSpec, bind


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
    environment = equip(LocalEnvironment, *tools)
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
    signature = inspect.signature(method_of(bound))
    assert list(signature.parameters) == ["b", "d", "a", "c"]
    assert signature.parameters["a"].default == 3
    assert signature.parameters["c"].default is ...
    assert signature.parameters["b"].default is inspect.Parameter.empty
    assert signature.return_annotation is str


def test_only_given_arguments_are_sent_and_unknown_ones_are_passed_on() -> None:
    bound = bind_one({"type": "object", "properties": {"a": {"default": 1}, "b": {}}, "required": ["b"]})
    method = method_of(bound)
    assert json.loads(method())["arguments"] == {}
    assert json.loads(method(c=1, a=None))["arguments"] == {"c": 1, "a": None}


def test_an_argument_given_under_both_names_is_sent_under_both() -> None:
    bound = bind_one({"type": "object", "properties": {"from": {}}})
    method = method_of(bound)
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


def test_a_schema_deeper_than_python_recurses_binds() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    bound = bind_one({"type": "object", "properties": {"a": schema}})
    assert described(bound)
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
