"""Tool binding over a corpus of schemas, with the programs that read the result and a server that takes the calls."""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.trainer.tool_environments import (
    WireEnvironment,
    bind_one,
    described,
    equip,
    method_of,
    rendered,
    without_nullable,
)
from tests.trainer.tool_schemas import CASES, Case, model_calls, servers
from trainer.ors.text import encodable
from trainer.ors.tools import BoundTool

corpus = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def recorder_url() -> Iterator[str]:
    program = Path(__file__).with_name("wire_recorder.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        finally:
            process.terminate()


def bound_case(case: Case) -> BoundTool:
    return bind_one(case.schema, case.name, case.description)


def safe_names(bound: BoundTool) -> dict[str, str]:
    """The name in the signature of each parameter by its name on the wire, found by calling the tool."""
    method = method_of(bound)
    names = {}
    for parameter in inspect.signature(method).parameters:
        (wire,) = json.loads(method(**{parameter: 0}))["arguments"]
        names[wire] = parameter
    return names


def test_the_corpus_is_large_and_its_calls_are_valid() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
    for case in [*model_calls.CASES, *servers.CASES]:
        jsonschema.validate(case.arguments, without_nullable(case.schema))


@corpus
def test_get_json_schema_agrees_with_the_schema(case: Case) -> None:
    bound = bound_case(case)
    function = described(bound)
    assert function["name"] == bound.attribute
    parameters = function["parameters"]
    assert set(parameters["properties"]) == set(case.expected_parameters)
    assert set(parameters.get("required", [])) == {name for name, needed in case.expected_parameters.items() if needed}
    assert all(schema["description"].strip() for schema in parameters["properties"].values())


@corpus
def test_hints_allow_what_the_schema_allows(case: Case) -> None:
    bound = bound_case(case)
    names = safe_names(bound)
    arguments = {names.get(wire, wire): value for wire, value in case.arguments.items()}
    jsonschema.validate(arguments, without_nullable(described(bound)["parameters"]))


@corpus
def test_a_call_arrives_on_the_wire_unchanged(case: Case, recorder_url: str) -> None:
    bound = bound_case(case)
    environment = equip(WireEnvironment, bound)
    environment.url = recorder_url
    method = getattr(environment, bound.attribute)
    sent = json.dumps({"tool": case.name, "arguments": case.arguments})
    assert method(**case.arguments) == sent
    names = safe_names(bound)
    assert method(**{names.get(wire, wire): value for wire, value in case.arguments.items()}) == sent


@corpus
def test_the_chat_template_shows_the_tool(case: Case) -> None:
    bound = bound_case(case)
    (from_method,) = rendered(method_of(bound))
    assert from_method["function"] == described(bound)
    assert rendered(bound.schema) == [bound.schema]
    assert bound.schema["function"]["parameters"] == encodable(case.schema or {"type": "object", "properties": {}})
