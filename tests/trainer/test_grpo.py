"""What the trainer launches together, what it keeps in order, and what it does exactly once or never."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOTrainer

from benchmarks.scripted import tokenizer, tool_call
from tests.servers import serve_script
from tests.trainer.commands import told
from tests.trainer.playing import SERVER, Play, logged, rollouts_of, train, trainer


@pytest.fixture(scope="module")
def server() -> Iterator[Play]:
    with serve_script(SERVER) as url, closing(Play(url)) as play:
        yield play


@pytest.fixture
def play(server: Play) -> Play:
    server.clear()
    return server


def test_all_sessions_of_a_batch_are_opened_together(play: Play, tmp_path: Path) -> None:
    play.open_together(8)  # one that is opened alone is never ready
    train(play.spec(discover_task_tools=False), lambda rollout, turn: "done", tmp_path)
    assert [line["ending"] for line in rollouts_of(tmp_path)] == ["stopped"] * 8
    assert play.record()["most_sessions_open"] == 8


def test_all_calls_of_a_turn_run_together(play: Play, tmp_path: Path) -> None:
    def meet_twice(rollout: int, turn: int) -> str:
        return tool_call("meet", party=8) if turn < 2 else "done"

    train(play.spec(), meet_twice, tmp_path)  # a call that is made alone never comes back
    lines = rollouts_of(tmp_path)
    assert [[call["result"] for call in line["calls"]] for line in lines] == [["met", "met"]] * 8
    assert [line["reward"] for line in lines] == [1.0] * 8


def test_rollouts_that_make_calls_in_some_turns_only_are_launched_with_the_others(play: Play, tmp_path: Path) -> None:
    def every_other(rollout: int, turn: int) -> str:
        return tool_call("meet", party=8 if turn == 0 else 4) if turn <= rollout % 2 else "done"

    train(play.spec(), every_other, tmp_path)
    assert [len(line["calls"]) for line in rollouts_of(tmp_path)] == [1, 2] * 4


def test_calls_of_one_message_keep_their_order(play: Play, tmp_path: Path) -> None:
    def slow_then_quick(rollout: int, turn: int) -> str:
        first = tool_call("note", text=f"{rollout} first", seconds=0.3)
        return first + "\n" + tool_call("note", text=f"{rollout} second", reward=rollout) if turn == 0 else "done"

    train(play.spec(), slow_then_quick, tmp_path)
    calls = play.record()["calls"]
    for rollout in range(8):
        own = [call for call in calls if call.startswith(f"{rollout} ")]
        assert own == [f"{rollout} {event}" for event in ("first begins", "first ends", "second begins", "second ends")]
    for rollout, line in enumerate(rollouts_of(tmp_path)):
        assert [message["content"] for message in line["completion"][1:3]] == [
            f"noted {rollout} first",
            f"noted {rollout} second",
        ]
        assert line["reward"] == rollout


def test_a_call_runs_once_when_its_result_is_too_long_for_the_completion(play: Play, tmp_path: Path) -> None:
    def big(rollout: int, turn: int) -> str:
        return tool_call("big", text=f"{rollout}.{turn}", size=5000 if rollout % 2 else 5)

    train(play.spec(), big, tmp_path, max_completion_length=900, max_tool_calling_iterations=2)
    lines = rollouts_of(tmp_path)
    assert [line["ending"] for line in lines] == ["tool_limit", "length"] * 4
    assert [len(line["calls"]) for line in lines] == [2, 1] * 4
    assert [line["reward"] for line in lines] == [0.5] * 8
    once = [f"{rollout}.{turn}" for rollout in range(8) for turn in range(1 if rollout % 2 else 2)]
    assert Counter(play.record()["calls"]) == Counter(once)


def test_a_call_runs_once_at_the_limit_of_tool_calls_and_not_beyond(play: Play, tmp_path: Path) -> None:
    def again(rollout: int, turn: int) -> str:
        return tool_call("note", text=f"{rollout}.{turn}")

    train(play.spec(), again, tmp_path, max_tool_calling_iterations=3)
    begun = [call for call in play.record()["calls"] if call.endswith("begins")]
    assert sorted(begun) == sorted(f"{rollout}.{turn} begins" for rollout in range(8) for turn in range(3))
    assert {line["ending"] for line in rollouts_of(tmp_path)} == {"tool_limit"}


def test_a_reward_function_may_call_tools_and_sends_no_call_that_was_left_at_the_limit(
    play: Play, tmp_path: Path
) -> None:
    def grade(environments: list[Any], **_: Any) -> list[float]:
        for at, environment in enumerate(environments):
            environment.note(text=f"grade {at}", reward=0.5)
        return [environment.calls[-1].reward for environment in environments]

    def again(rollout: int, turn: int) -> str:
        return tool_call("note", text=f"{rollout}.{turn}")

    train(play.spec(), again, tmp_path, max_tool_calling_iterations=1, other_rewards=[grade])
    begun = [call for call in play.record()["calls"] if call.endswith("begins")]
    assert sorted(begun) == sorted(f"{call} begins" for at in range(8) for call in (f"{at}.0", f"grade {at}"))
    made = [[call["arguments"]["text"] for call in line["calls"]] for line in rollouts_of(tmp_path)]
    assert made == [[f"{at}.0", f"grade {at}"] for at in range(8)]


def test_nothing_is_sent_after_the_end_of_an_episode(play: Play, tmp_path: Path) -> None:
    def go_on(rollout: int, turn: int) -> str:
        last = tool_call("note", text=f"{rollout}.{turn}", reward=1.0, finished=True)
        return last + "\n" + last if turn < 2 else "done"

    trained = train(play.spec(), go_on, tmp_path)
    assert sorted(call for call in play.record()["calls"]) == sorted(
        f"{rollout}.0 {event}" for rollout in range(8) for event in ("begins", "ends")
    )
    assert play.record()["requests"].count("/play/call") == 8
    for line in rollouts_of(tmp_path):
        assert [call["error"] for call in line["calls"]] == [None, "after_end", "after_end", "after_end"]
        assert line["completion"][2]["content"] == "Error: The episode has ended."
        assert (line["reward"], line["ending"]) == (1.0, "finished")
    assert logged(trained)["env/after_end"] == 3.0


def test_sessions_are_closed_after_the_step_that_opened_them(play: Play, tmp_path: Path) -> None:
    spec = play.spec()
    made = trainer(spec, lambda rollout, turn: tool_call("note", text="n") if turn == 0 else "done", tmp_path)
    made.train()
    told = play.await_record(lambda told: told["sessions_open"] == 0)
    assert told["sessions_open"] == 0
    assert told["requests"].count("/delete") >= 8


def test_the_model_is_shown_each_schema_as_the_server_has_it(play: Play, tmp_path: Path) -> None:
    shown: list[str] = []

    made = trainer(play.spec(), lambda rollout, turn: "done", tmp_path)
    say = made._generate_single_turn

    def read_then_say(prompt_ids: Any, *rest: Any, **more: Any) -> Any:
        shown.extend(tokenizer().decode(ids) for ids in prompt_ids)
        return say(prompt_ids, *rest, **more)

    made._generate_single_turn = read_then_say
    made.train()
    listed = re.search(r"<tools>\n(.*)\n</tools>", shown[0], re.DOTALL)
    assert listed is not None
    functions = [json.loads(line)["function"] for line in listed[1].splitlines()]
    schemas = {tool["name"]: tool["input_schema"] or {"type": "object", "properties": {}} for tool in play.tools()}
    assert {function["name"]: function["parameters"] for function in functions} == schemas
    assert schemas["plan"]["properties"]["steps"]["minItems"] == 1  # such things reach the model


@pytest.mark.filterwarnings("ignore:You are using .environment_factory.:UserWarning")  # TRL's own word on it
def test_trls_own_trainer_takes_the_three_slots(play: Play, tmp_path: Path) -> None:
    def steps(rollout: int, turn: int) -> str:
        plan = tool_call("plan", steps=[{"action": "go", "metres": 3}])
        return plan if turn == 0 else "done"

    trained = train(play.spec(), steps, tmp_path, base=GRPOTrainer)
    assert logged(trained)["reward"] == 1.0
    assert logged(trained)["tools/failure_frequency"] == 0.0
    assert logged(trained)["env/scored"] == 1.0


def test_weights_that_a_checkpoint_lacks_are_warned_of_but_not_tied_ones(play: Play, tmp_path: Path) -> None:
    made = trainer(play.spec(), lambda rollout, turn: "done", tmp_path)
    assert made.model.config.tie_word_embeddings
    told_of = []
    for lacking in ("lm_head.weight",), ("lm_head.weight", "model.norm.weight"):
        weights = {key: value for key, value in made.model.state_dict().items() if key not in lacking}
        with told("transformers.trainer") as said:
            made._issue_warnings_after_load(made.model.load_state_dict(weights, False))
        told_of.append(said)
    assert told_of == [[], ["There were missing keys in the checkpoint model loaded: ['model.norm.weight']."]]
