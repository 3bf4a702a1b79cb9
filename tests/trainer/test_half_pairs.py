"""Half of a surrogate pair, which JSON can carry and no tokenizer can encode, stops no run wherever it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOTrainer

from benchmarks.scripted import tool_call
from tests.trainer.playing import rollouts_of, train
from tests.trainer.scripted_server import Protocol, Reply, Request, scripted
from tests.trainer.tool_environments import bind_one, method_of
from trainer import EnvGRPOTrainer, OpenRewardSpec
from trainer.ors.text import encodable

HALF = "caf\ud83d"
WHOLE = "caf\ufffd"


@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("\ud83da\udfff", "\ufffda\ufffd"),
        ("😀 é \ufffd", "😀 é \ufffd"),
        ({HALF: [HALF, {"a": HALF}], "n": 1.5}, {WHOLE: [WHOLE, {"a": WHOLE}], "n": 1.5}),
        (None, None),
    ],
)
def test_text_is_made_encodable_wherever_it_lies(value: Any, given: Any) -> None:
    assert encodable(value) == given


def test_an_argument_is_sent_under_its_own_name_whichever_it_was_shown_under() -> None:
    bound = bind_one({"type": "object", "properties": {HALF: {"type": "string"}, "b": {"enum": [HALF]}}})
    assert list(bound.schema["function"]["parameters"]["properties"]) == [WHOLE, "b"]
    for name in (WHOLE, HALF, "caf_"):
        assert json.loads(method_of(bound)(**{name: "x"}))["arguments"] == {HALF: "x"}
    both = bind_one({"type": "object", "properties": {HALF: {}, WHOLE: {}}})
    assert json.loads(method_of(both)(**{WHOLE: "x"}))["arguments"] == {WHOLE: "x"}


def half_a_server() -> Protocol:
    """One that sends half a pair wherever it can: `n` is 0 for a result, 1 for a refusal."""

    async def prompt(request: Request, reply: Reply) -> None:
        await reply.json([{"type": "text", "text": HALF}])

    async def call(request: Request, reply: Reply) -> None:
        results: list[dict[str, Any]] = [
            {"ok": True, "output": {"blocks": [{"type": "text", "text": HALF}], "reward": 1.0}},
            {"ok": False, "reason": "input_validation", "error": HALF},
        ]
        await reply.stream(("task_id", "t1"), ("end", json.dumps(results[request.json["input"]["n"]])))

    protocol = Protocol(prompt=prompt, call=call)
    protocol.tools[0]["description"] = HALF
    protocol.tools[0]["input_schema"]["properties"]["m"] = {"type": "string", "enum": [HALF, "b"]}
    return protocol


def clock() -> str:
    """Tell the time."""
    return HALF


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
@pytest.mark.parametrize("base", [EnvGRPOTrainer, GRPOTrainer])
def test_a_run_goes_on_whatever_has_half_a_pair(base: type, tmp_path: Path) -> None:
    own = base is EnvGRPOTrainer  # TRL's trainer breaks on what did not come through the adapter
    unknown = '<tool_call>\n{"name": "caf\\ud83d", "arguments": {"caf\\ud83d": "\\ud83d"}}\n</tool_call>'
    first = [tool_call("add", n=0), tool_call("add", n=1), unknown, tool_call("clock")]

    def script(rollout: int, turn: int) -> str:
        return "done" if turn else first[rollout if own else rollout % 2]

    with scripted(half_a_server()) as server:
        spec = OpenRewardSpec(server.url, env_name="shop")
        made = train(spec, script, tmp_path, 4, base=base, **({"tools": [clock]} if own else {}))
    assert made.state.global_step == 1
    if own:
        lines = rollouts_of(tmp_path)
        assert [line["reward"] for line in lines] == [1.0, None, None, None]
        assert [call["error"] for line in lines for call in line["calls"]] == [
            None,
            "bad_arguments",
            "unknown_tool",
            None,
        ]
        assert [line["calls"][0]["result"] for line in lines[:2]] == [WHOLE, f"Error: {WHOLE}"]
