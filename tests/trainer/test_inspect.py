"""`ors-train inspect`: what an environment offers, for people and as JSON."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port
from tests.trainer.commands import Command, happened, one_line
from tests.trainer.conftest import until
from tests.trainer.scripted_server import Protocol, scripted


def test_inspect_shows_splits_tools_and_a_prompt(ors_train: Command, gym: str, diary: Path) -> None:
    said = ors_train("inspect", gym, "--env_name", "gym")
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == f"gym at {gym}"
    assert [line.split() for line in lines[2:5]] == [
        ["train", "6", "tasks"],
        ["test", "3", "tasks"],
        ["nothing", "0", "tasks"],
    ]
    assert "tool say: Say something [red]aloud[/red]." in lines
    assert "  text (string): What to say." in lines
    assert "  tone (integer; optional; default 3)" in lines
    assert 'task of train: {"task_index": 0, "n": 0}' in lines
    assert "  Say [bold]0[/bold]. ␛[31m" in lines  # no control character reaches the terminal
    until(lambda: happened(diary, "setup") == happened(diary, "teardown"))


@pytest.mark.parametrize(
    ("flag", "header", "value"), [("api_key", "x-api-key", "hunter2"), ("hf_token", "authorization", "Bearer hunter2")]
)
def test_inspect_reaches_what_wants_a_key(
    ors_train: Command, monkeypatch: pytest.MonkeyPatch, flag: str, header: str, value: str
) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2")
    with scripted(Protocol()) as server:
        said = ors_train("inspect", server.url, f"--{flag}", "${MY_KEY}")
        also = ors_train("inspect", server.url, f"--{flag.replace('_', '-')}=${{MY_KEY}}")
        assert also.out == said.out
        assert said.status == 0, said.err
        assert {request.headers.get(header) for request in server.requests} == {value}
        said = one_line(ors_train("inspect", server.url, f"--{flag}", "hunter2"))
        assert said.startswith(f"ors-train inspect: --{flag} takes the name of a variable, in quotes: '${{")
        assert "hunter2" not in said


def test_a_password_in_the_url_is_given_by_variable(ors_train: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "p@ss")
    with scripted(Protocol()) as server:
        host = server.url.removeprefix("http://")
        said = ors_train("inspect", f"http://me:${{PASSWORD}}@{host}")
        assert said.status == 0, said.err
        sent = {request.headers.get("authorization") for request in server.requests}
        assert sent == {"Basic " + base64.b64encode(b"me:p@ss").decode()}
        assert said.out.splitlines()[0].endswith(f" at {server.url}")
        said = one_line(ors_train("inspect", f"http://me:hunter2@{host}"))
    assert said.startswith("ors-train inspect: the password in the URL takes ${VARIABLE}") and "hunter2" not in said


def test_inspect_takes_a_split_and_a_task_and_speaks_json(ors_train: Command, gym: str) -> None:
    found = json.loads(ors_train("inspect", gym, "--env_name", "gym", "--split", "test", "--task", "1", "--json").out)
    assert found["environment"] == "gym"
    assert found["address"] == gym
    assert found["splits"] == {"train": 6, "test": 3, "nothing": 0}
    assert (found["split"], found["task"]["task_index"], found["task"]["n"]) == ("test", 1, 7)
    assert found["prompt"] == "Say [bold]7[/bold]. \x1b[31m"
    assert found["tools"][0]["parameters"]["properties"]["tone"]["default"] == 3


def test_inspect_takes_the_first_environment_and_says_so(
    ors_train: Command, gym: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert json.loads(ors_train("inspect", gym, "--json").out)["environment"] == "gym"
    assert "serves gym, bare: taking 'gym'" in caplog.text


def with_schema(ors_train: Command, schema: Any) -> list[str]:
    """The lines on the one tool's parameters."""
    protocol = Protocol()
    protocol.tools = [{"name": "add", "description": "Add.", "input_schema": schema}]
    with scripted(protocol) as server:
        said = ors_train("inspect", server.url)
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    first = lines.index("tool add: Add.") + 1
    return lines[first : lines.index("", first)]


def test_inspect_shows_all_that_a_schema_says(ors_train: Command) -> None:
    steps = {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"q": {"type": "string"}}}}
    properties = {
        "mode": {"type": "string", "enum": ["a", "b"], "description": "Which way."},
        "n": {"type": "integer", "minimum": 0, "maximum": 5, "default": 2},
        "steps": steps,
        "where": {"$ref": "#/$defs/Place"},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    place = {"type": "object", "description": "A place.", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    schema = {"type": "object", "properties": properties, "required": ["n"], "$defs": {"Place": place}}
    assert with_schema(ors_train, schema) == [
        '  mode (one of "a", "b"; optional): Which way.',
        "  n (integer; minimum 0; maximum 5; default 2)",
        "  steps (list of JSON object {q: string (optional)}; optional; minimum items 1)",
        "  where (JSON object {x: number}; optional): A place.",
        "  either (string or null; optional)",
    ]


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}},
            "integer",
        ),
        ({"allOf": [{"properties": {"n": {"type": "integer"}}}, {"required": ["n"]}]}, "integer"),
        ({"properties": {"n": True}, "required": ["n"]}, "any JSON value"),
        ({"properties": {"n": {"type": "integer", "required": True}}, "required": True}, "integer; optional"),
        (
            {"properties": {"n": {"type": ["integer", 1], "description": 7}}, "required": [["n"]]},
            "integer; optional): 7",
        ),
        ({"properties": [1]}, None),
        ([1], None),
        (None, None),
    ],
)
def test_inspect_reads_a_schema_that_is_oddly_written(ors_train: Command, schema: Any, shown: str | None) -> None:
    lines = with_schema(ors_train, schema)
    assert lines == ([] if shown is None else [f"  n ({shown}" + ("" if "):" in shown else ")")])


def test_inspect_renders_the_prompt_as_a_model_reads_it(ors_train: Command, gym: str, tiny_model: Path) -> None:
    said = ors_train("inspect", gym, "--env_name", "gym", "--model", tiny_model)
    assert "<|im_start|>user\n  Say [bold]0[/bold]." in said.out
    assert '{"type": "function", "function": {"name": "say"' in said.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "6"), "split 'train' has tasks 0 to 5, not 6"),
        (("--task", "-1"), "split 'train' has tasks 0 to 5, not -1"),
        (("--split", "tset"), "has no split 'tset'; it has: train, test, nothing"),
        (("--split", "nothing"), "split 'nothing' has no tasks"),
        (("--model", "/no/such/model"), "model '/no/such/model': there is no such folder"),
    ],
)
def test_inspect_says_what_is_not_there(ors_train: Command, gym: str, words: tuple[str, ...], said: str) -> None:
    assert said in one_line(ors_train("inspect", gym, "--env_name", "gym", *words))


def test_inspect_of_nothing_names_it(ors_train: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert url in one_line(ors_train("inspect", url))


def test_a_proxy_that_would_swallow_a_local_url_is_warned_of(
    ors_train: Command, gym: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with caplog.at_level(logging.WARNING):
        assert ors_train("inspect", gym, "--env_name", "gym").status == 1
    (warning,) = [r.getMessage() for r in caplog.records if "proxy" in r.getMessage()]
    assert gym in warning and "http_proxy" in warning and "NO_PROXY" in warning
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert ors_train("inspect", gym, "--env_name", "gym").status == 0
