"""A rollout that goes wrong is one unscored rollout: the others, the step and the run go on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOTrainer

from benchmarks.scripted import arguments, model, tokenizer, tool_call
from tests.servers import serve_script
from tests.trainer.playing import SERVER, Play, logged, rollouts_of, train, trainer
from trainer import EnvGRPOTrainer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Play]:
    with serve_script(SERVER) as url, closing(Play(url)) as play:
        yield play


@pytest.fixture
def play(server: Play) -> Play:
    server.clear()
    return server


def say(messages: dict[int, str]) -> Any:
    """A script: what some rollouts say first; the others score their own number."""

    def script(rollout: int, turn: int) -> str:
        if turn > 0:
            return "done"
        return messages.get(rollout, tool_call("note", text=f"{rollout}", reward=float(rollout)))

    return script


def test_a_crash_in_one_rollout_leaves_it_unscored_and_the_others_alone(play: Play, tmp_path: Path) -> None:
    made = trainer(play.spec(), say({1: tool_call("crash")}), tmp_path, max_steps=2)
    advantages: list[list[float]] = []
    score = made._generate_and_score_completions

    def keep(inputs: Any) -> Any:
        scored = score(inputs)
        advantages.append(scored["advantages"].tolist())
        return scored

    made._generate_and_score_completions = keep
    made.train()
    lines = rollouts_of(tmp_path)
    assert [line["step"] for line in lines] == [1] * 8 + [2] * 8
    for step in (lines[:8], lines[8:]):
        assert [line["reward"] for line in step] == [0.0, None, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        assert (step[1]["ending"], step[1]["calls"][0]["error"]) == ("environment_error", "crash")
        assert "the environment has a fault" in step[1]["error"]
    for step in advantages:
        assert step[1] == 0.0
        assert all(value != 0.0 for at, value in enumerate(step) if at != 1)
        assert math.isclose(sum(step[:4]), 0.0, abs_tol=1e-5)  # of its group without it
    for number in range(2):
        logs = logged(made, number)
        assert (logs["env/scored"], logs["env/environment_errors"], logs["env/crash"]) == (7 / 8, 1 / 8, 1 / 8)


def test_a_call_without_an_answer_ends_its_rollout_at_the_deadline(play: Play, tmp_path: Path) -> None:
    made = train(play.spec(call_timeout=6.0), say({2: tool_call("hang")}), tmp_path)
    lines = rollouts_of(tmp_path)
    assert [line["reward"] for line in lines] == [0.0, 1.0, None, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert (lines[2]["ending"], lines[2]["calls"][0]["error"]) == ("environment_error", "timeout")
    assert logged(made)["env/timeout"] == 1 / 8
    assert play.await_record(lambda told: told["sessions_open"] == 0)["sessions_open"] == 0


def test_a_batch_none_of_whose_sessions_opens_is_unscored_and_the_run_goes_on(tmp_path: Path) -> None:
    with serve_script(SERVER) as url, closing(Play(url)) as play:
        spec = play.spec(open_timeout=4.0)
        made = trainer(spec, say({}), tmp_path, max_steps=2)
    made.train()
    lines = rollouts_of(tmp_path)
    assert [(line["reward"], line["ending"]) for line in lines] == [(None, "open_failed")] * 16
    assert all("play at http://127.0.0.1" in line["error"] for line in lines)
    assert [logged(made, number)["env/unreachable"] for number in range(2)] == [1.0, 1.0]
    assert [logged(made, number)["env/scored"] for number in range(2)] == [0.0, 0.0]


@pytest.mark.parametrize("crash", [MemoryError("no room"), KeyboardInterrupt()])
def test_a_batch_whose_generation_ends_the_run_is_on_record(play: Play, tmp_path: Path, crash: BaseException) -> None:
    batches = 0

    def script(rollout: int, turn: int) -> str:
        nonlocal batches
        batches += (rollout, turn) == (0, 0)
        if turn == 1 and batches == 2:
            raise crash
        return tool_call("note", text=f"{rollout}", reward=float(rollout)) if turn == 0 else "done"

    with pytest.raises(type(crash)) as raised:
        train(play.spec(), script, tmp_path, max_steps=2)
    assert raised.value is crash and not hasattr(crash, "__notes__")
    lines = rollouts_of(tmp_path)
    assert [(line["step"], line["ending"]) for line in lines] == [(1, "stopped")] * 8 + [(2, "interrupted")] * 8
    for number, (whole, line) in enumerate(zip(lines[:8], lines[8:], strict=True)):
        assert (whole["reward"], line["reward"], line["error"]) == (float(number), None, None)
        assert [(call["result"], call["reward"]) for call in line["calls"]] == [(f"noted {number}", float(number))]
        assert line["completion"] == whole["completion"][:2]
        assert [message["role"] for message in line["prompt"]] == ["user"]
        assert line["prompt"][0]["content"].startswith("Play train-")
    assert play.await_record(lambda told: told["sessions_open"] == 0)["sessions_open"] == 0


def test_a_batch_whose_first_generation_crashes_is_on_record(play: Play, tmp_path: Path) -> None:
    def script(rollout: int, turn: int) -> str:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        train(play.spec(), script, tmp_path)
    lines = rollouts_of(tmp_path)
    assert [(line["ending"], line["completion"], line["calls"]) for line in lines] == [("interrupted", [], [])] * 8
    assert all(line["prompt"][0]["content"].startswith("Play train-") for line in lines)


def test_answers_that_have_come_are_on_record_when_the_run_ends_in_the_midst_of_a_turn(
    play: Play, tmp_path: Path
) -> None:
    def stop() -> str:
        """Stop."""
        wait([pending.turn for rollout in made.environments[1:] for pending in rollout._pending])
        raise KeyboardInterrupt

    def script(rollout: int, turn: int) -> str:
        calls = [tool_call("note", text=f"{rollout}{which}", reward=1.0) for which in "ab"]
        return "\n".join([calls[0], tool_call("stop"), calls[1]] if rollout == 0 else calls)

    made = trainer(play.spec(), script, tmp_path, tools=[stop])
    with pytest.raises(KeyboardInterrupt):
        made.train()
    lines = rollouts_of(tmp_path)
    results = [[(call["result"], call["reward"]) for call in line["calls"] if call["tool"] == "note"] for line in lines]
    assert results == [[(f"noted {rollout}{which}", 1.0) for which in "ab"] for rollout in range(8)]
    assert {line["ending"] for line in lines} == {"interrupted"}


def test_a_crash_is_not_hidden_by_rollouts_that_cannot_be_written(play: Play, tmp_path: Path) -> None:
    def script(rollout: int, turn: int) -> str:
        raise MemoryError("no room")

    (tmp_path / "rollouts.jsonl").mkdir()
    with pytest.raises(MemoryError, match="no room") as raised:
        train(play.spec(), script, tmp_path)
    assert raised.value.__notes__[0].startswith("the rollouts of this batch could not be kept: IsADirectoryError: ")


def test_each_rollout_is_generated_from_its_own_prompt(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session of a group did not open, its prompt is not that of the others."""
    shared: list[int] = []
    generate = GRPOTrainer._generate_single_turn

    def seen(
        self: Any, prompt_ids: Any, images: Any, fields: Any, num_generations: int, *rest: Any, **more: Any
    ) -> Any:
        shared.append(num_generations)
        return generate(self, prompt_ids, images, fields, num_generations, *rest, **more)

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", seen)
    spec = play.spec()
    EnvGRPOTrainer(
        model=model(),
        processing_class=tokenizer(),
        args=arguments(tmp_path, 4, max_completion_length=4),
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=spec.reward_funcs,
    ).train()
    assert shared and set(shared) == {1}


def test_the_models_mistakes_are_told_to_it_and_cost_nothing_else(play: Play, tmp_path: Path) -> None:
    mistakes = {
        0: tool_call("fly", height=3),
        1: '<tool_call>\n{"name": "note", "arguments": "a text"}\n</tool_call>',
        2: tool_call("note", text="2", reward="much"),
        3: tool_call("note", wrong=1),
    }
    made = train(play.spec(), say(mistakes), tmp_path)
    lines = rollouts_of(tmp_path)
    assert [line["reward"] for line in lines] == [None] * 4 + [4.0, 5.0, 6.0, 7.0]
    assert [line["ending"] for line in lines] == ["stopped"] * 8
    told = [[m["content"] for m in line["completion"] if m["role"] == "tool"] for line in lines]
    assert "fly" in told[0][0]
    assert all(len(results) == 1 for results in (told[0], told[2], told[3]))
    assert [line["calls"][0]["error"] for line in lines[2:4]] == ["bad_arguments"] * 2
    assert told[2][0].startswith("Error: ") and "reward" in told[2][0]
    logs = logged(made)
    assert logs["env/unknown_tool"] == 1 / 8
    assert logs["env/bad_arguments"] == 3 / 8
    assert logs["env/model_errors"] == 4 / 8
    assert logs["env/environment_errors"] == 0.0
    made_of = [[(call["tool"], call["arguments"], call["error"]) for call in line["calls"]] for line in lines[:2]]
    assert made_of == [[("fly", {"height": 3}, "unknown_tool")], [("note", "a text", "bad_arguments")]]
    assert [call["result"] for line in lines[:2] for call in line["calls"]] == [told[0][0], told[1][0]]


def test_a_call_that_cannot_be_parsed_is_a_mistake_of_its_own_kind(play: Play, tmp_path: Path) -> None:
    good = tool_call("note", text="good", reward=1.0)
    broken = '<tool_call>\n{"name": "note", "arguments": {"text": "x"\n</tool_call>'
    texts = {
        0: broken,
        1: f"{good}\n{broken}",  # TRL makes neither
        2: '<tool_call>\n{"arguments": {}}\n</tool_call>',
        3: "There is nothing to call.",
        4: good,
    }

    def script(rollout: int, turn: int) -> str:
        return texts.get(rollout, good) if turn == 0 else broken if rollout == 4 else "done"

    made = train(play.spec(), script, tmp_path)
    lines = rollouts_of(tmp_path)
    kinds = [[call["error"] for call in line["calls"]] for line in lines]
    assert kinds == [["malformed_call"]] * 3 + [[], [None, "malformed_call"], [None], [None], [None]]
    assert [line["ending"] for line in lines] == ["stopped"] * 8
    assert [line["reward"] for line in lines] == [None] * 4 + [1.0] * 4
    assert (logged(made)["env/malformed_call"], logged(made)["env/model_errors"]) == (4 / 8, 4 / 8)


def test_a_call_that_was_cut_off_is_no_mistake(play: Play, tmp_path: Path) -> None:
    made = trainer(play.spec(), say({}), tmp_path)
    speak = made._generate_single_turn

    def cut(*arguments: Any, **keywords: Any) -> Any:
        said, none = speak(*arguments, **keywords)
        return [ids[:20] for ids in said], none

    made._generate_single_turn = cut
    made.train()
    lines = rollouts_of(tmp_path)
    assert all("<tool_call>" in line["completion"][0]["content"] for line in lines)
    assert [(line["ending"], line["calls"]) for line in lines] == [("length", [])] * 8


def test_a_call_after_a_mistake_in_the_same_message_gets_its_own_answer(play: Play, tmp_path: Path) -> None:
    both = tool_call("fly") + "\n" + tool_call("note", text="mine", reward=0.25) + "\n" + tool_call("note", wrong=1)
    train(play.spec(), say({5: both}), tmp_path)
    line = rollouts_of(tmp_path)[5]
    told = [message["content"] for message in line["completion"] if message["role"] == "tool"]
    assert told[1] == "noted mine"
    assert told[2].startswith("Error: ")
    assert line["reward"] == 0.25
    assert [call["error"] for call in line["calls"]] == ["unknown_tool", None, "bad_arguments"]
    assert [call["result"] for call in line["calls"]] == told
