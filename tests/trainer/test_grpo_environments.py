"""Which tasks of which environment a run plays: splits, mixtures, evaluation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import concatenate_datasets

from benchmarks.scripted import tool_call
from tests.servers import serve_script
from tests.trainer.playing import SERVER, Play, logged, rollouts_of, train, trainer
from trainer import Mixture, callbacks
from trainer.evaluate import evaluate
from trainer.ors.errors import ConfigurationError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Play]]:
    with (
        serve_script(SERVER) as one,
        serve_script(SERVER) as other,
        closing(Play(one)) as first,
        closing(Play(other)) as second,
    ):
        yield [first, second]


@pytest.fixture
def plays(servers: list[Play]) -> list[Play]:
    for play in servers:
        play.clear()
    return servers


def note(rollout: int, turn: int) -> str:
    return tool_call("note", text="n", reward=1.0, finished=True) if turn == 0 else "done"


def test_an_evaluation_on_the_test_split_resets_test_tasks(plays: list[Play], tmp_path: Path) -> None:
    play = plays[0]
    spec = play.spec(discover_task_tools=False)
    tests = play.spec(split="test", num_tasks=2).train_dataset
    made = trainer(spec, note, tmp_path, eval_dataset=tests, per_device_eval_batch_size=8, num_generations_eval=4)
    before = play.record()["tasks"]
    figures = made.evaluate()
    played = Counter(play.record()["tasks"]) - Counter(before)
    assert played == {"test-0": 4, "test-1": 4}
    assert figures["eval_reward"] == 1.0
    lines = rollouts_of(tmp_path)
    assert {(line["mode"], line["split"], line["prompt"][0]["content"]) for line in lines} == {
        ("eval", "test", "Play test-0."),
        ("eval", "test", "Play test-1."),
    }


def test_two_servers_train_in_one_run_each_with_its_own_metrics(plays: list[Play], tmp_path: Path) -> None:
    def score(rollout: int, turn: int) -> str:
        return tool_call("note", text=f"{rollout}", reward=1.0, finished=rollout % 2 == 0) if turn == 0 else "done"

    first, second = plays
    mixture = Mixture([first.spec(name="one", num_tasks=4), second.spec(name="two", split="test", num_tasks=4)])
    made = train(mixture, score, tmp_path, max_steps=4)
    lines = rollouts_of(tmp_path)
    by_name = {name: [line for line in lines if line["environment"] == name] for name in ("one", "two")}
    assert len(by_name["one"]) + len(by_name["two"]) == 32 and min(map(len, by_name.values())) > 0
    assert {line["split"] for line in by_name["one"]} == {"train"}
    assert {line["split"] for line in by_name["two"]} == {"test"}
    for play, name in ((first, "one"), (second, "two")):
        notes = [call for call in play.record()["calls"] if call.endswith("begins")]
        assert len(notes) == len(by_name[name])
    for step in range(4):
        entry = logged(made, step)
        played = {line["environment"] for line in lines if line["step"] == step + 1}
        assert {name for name in ("one", "two") if f"env/{name}/scored" in entry} == played
        for name in played:
            assert (entry[f"env/{name}/scored"], entry[f"env/{name}/reward"]) == (1.0, 1.0)
            assert entry[f"env/{name}/finished"] == entry["env/finished"] == 0.5


def test_a_batch_of_one_group_logs_by_environment_too_and_its_errors_count_once(
    plays: list[Play], tmp_path: Path
) -> None:
    batches = itertools.count()

    def fault(rollout: int, turn: int) -> str:
        crashes = rollout == turn == 0 and next(batches) == 0
        return tool_call("crash") if crashes else note(rollout, turn)

    mixture = Mixture([play.spec(name=name, num_tasks=8) for name, play in zip(("one", "two"), plays, strict=True)])
    made = train(mixture, fault, tmp_path, rollouts=4, gradient_accumulation_steps=4)
    lines = rollouts_of(tmp_path)
    logs = logged(made)
    assert len(lines) == 16
    assert {name for name in ("one", "two") if f"env/{name}/scored" in logs} == {line["environment"] for line in lines}
    assert (logs["env/crash"], logs["env/environment_errors"], logs["env/timeout"]) == (1 / 16, 1 / 16, 0.0)


def test_rows_that_are_read_as_they_are_drawn_are_trained_on(plays: list[Play], tmp_path: Path) -> None:
    mixture = Mixture([play.spec(name=name) for name, play in zip(("one", "two"), plays, strict=True)])
    vars(mixture)["train_dataset"] = mixture.train_dataset.to_iterable_dataset()
    train(mixture, note, tmp_path)
    assert len(rollouts_of(tmp_path)) == 8


def test_rollouts_are_kept_when_a_reward_function_fails(plays: list[Play], tmp_path: Path) -> None:
    def broken(completions: list[Any], **_: Any) -> list[float]:
        raise LookupError("no grader")

    with pytest.raises(LookupError, match="no grader"):
        train(plays[0].spec(), note, tmp_path, other_rewards=[broken])
    lines = rollouts_of(tmp_path)
    assert [(line["reward"], line["calls"][0]["reward"]) for line in lines] == [(None, 1.0)] * 8


def test_a_tool_of_the_trainers_own_is_known(plays: list[Play], tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add.

        Args:
            a: a number
            b: a number
        """
        return a + b

    logs = logged(
        train(plays[0].spec(), lambda _, turn: "done" if turn else tool_call("add", a=1, b=2), tmp_path, tools=[add])
    )
    assert (logs["env/unknown_tool"], logs["env/model_errors"], logs["tools/call_frequency"]) == (0.0, 0.0, 1.0)
    calls = [(call["tool"], call["result"], call["error"]) for line in rollouts_of(tmp_path) for call in line["calls"]]
    assert calls == [("add", "3", None)] * 8


def test_each_call_has_its_own_result_where_a_tool_of_the_trainers_own_is_asynchronous(
    plays: list[Play], tmp_path: Path
) -> None:
    async def clock(zone: str) -> str:
        """The time.

        Args:
            zone: where
        """
        return f"noon in {zone}"

    def script(rollout: int, turn: int) -> str:
        first, last = (tool_call("clock", zone=zone) for zone in ("Rome", "Oslo"))
        return "done" if turn else "\n".join([first, tool_call("fly"), tool_call("note", text="n"), last])

    train(plays[0].spec(), script, tmp_path, tools=[clock])
    calls = [[(call["tool"], call["result"]) for call in line["calls"]] for line in rollouts_of(tmp_path)]
    unknown = "{'error': 'Tool fly not found.'}"
    assert calls == [[("clock", "noon in Rome"), ("fly", unknown), ("note", "noted n"), ("clock", "noon in Oslo")]] * 8


@pytest.mark.parametrize("reward", [0.9, 0.7, -0.1, 1e-7])
def test_a_reward_is_the_number_that_the_environment_gave(plays: list[Play], tmp_path: Path, reward: float) -> None:
    """TRL keeps rewards in single precision, in which none of these is itself."""
    spec = plays[0].spec(num_tasks=1)
    made = trainer(spec, lambda _, turn: "done" if turn else tool_call("note", text="a", reward=reward), tmp_path)
    found = evaluate(made, spec.train_dataset, rollouts_per_task=2, success_at=reward)
    assert (found["sampled"]["success"], found["sampled"]["reward"]) == (1.0, reward)
    assert [line["reward"] for line in rollouts_of(tmp_path)] == [reward] * 3


def test_what_single_precision_cannot_hold_is_in_no_result(plays: list[Play], tmp_path: Path) -> None:
    def boundless(completions: list[Any], **_: Any) -> list[float | None]:
        return [float("inf"), *[None] * (len(completions) - 1)]

    def script(rollout: int, turn: int) -> str:
        return "done" if turn else tool_call("note", text="a", reward=1e39 if rollout == 1 else 0.5)

    spec = plays[0].spec(num_tasks=1)
    made = trainer(spec, script, tmp_path, other_rewards=[boundless])
    sampled = evaluate(made, spec.train_dataset, rollouts_per_task=4)["sampled"]
    assert (sampled["scored"], sampled["reward"]) == (0.5, 0.5)
    assert [line["reward"] for line in rollouts_of(tmp_path)][:4] == [None, None, 0.5, 0.5]


def test_an_evaluation_says_now_and_then_how_far_it_is(
    plays: list[Play], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, said = plays[0].spec(num_tasks=3), list[str]()
    made = trainer(spec, note, tmp_path, per_device_eval_batch_size=2)
    monkeypatch.setattr(callbacks, "LINE_EVERY", 0.0)
    evaluate(made, spec.train_dataset, rollouts_per_task=2, progress=callbacks.evaluation_progress(said.append))
    sampled = [f"evaluating, sampled: {done}/6 rollouts" for done in (2, 4, 6)]
    assert said == [*sampled, *(f"evaluating, greedy: {done}/3 rollouts" for done in (2, 3))]
    monkeypatch.setattr(callbacks, "LINE_EVERY", 3600.0)
    callbacks.evaluation_progress(said.append)("sampled", 1, 2)
    assert len(said) == 5


def test_an_evaluation_keeps_the_random_state_of_its_own_device_alone(
    plays: list[Play], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = plays[0].spec(num_tasks=1)
    made = trainer(spec, note, tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)  # torch warns of keeping all, and warnings are errors
    before = torch.random.get_rng_state()
    made.score(spec.train_dataset, 1, seed=7)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_same_server_twice_under_two_splits_plays_both(plays: list[Play], tmp_path: Path) -> None:
    play = plays[0]
    mixture = Mixture([play.spec(num_tasks=1), play.spec(split="test", num_tasks=1)])
    train(mixture, note, tmp_path)
    lines = rollouts_of(tmp_path)
    assert Counter((line["environment"], line["split"]) for line in lines) == {
        ("play/train", "train"): 4,
        ("play/test", "test"): 4,
    }


def test_a_row_of_an_unknown_environment_is_found_before_the_first_step(plays: list[Play], tmp_path: Path) -> None:
    first, second = plays
    mixture = Mixture([first.spec(name="one"), second.spec(name="two")])
    strange = mixture.train_dataset.map(lambda row: {"environment": "three"})
    vars(mixture)["train_dataset"] = concatenate_datasets([mixture.train_dataset, strange])
    with pytest.raises(ConfigurationError, match="environment 'three'; the factories are for: one, two"):
        trainer(mixture, note, tmp_path)


def test_metrics_of_a_step_are_exact(plays: list[Play], tmp_path: Path) -> None:
    def script(rollout: int, turn: int) -> str:
        says = {
            0: tool_call("note", text="a", reward=1.0, finished=True),
            1: tool_call("note", text="b", reward=0.5),
            2: tool_call("note", text="c"),
            3: tool_call("note", text="d", reward="much"),
            4: tool_call("fly"),
            5: tool_call("crash"),
            6: "nothing",
        }
        return says.get(rollout, tool_call("big", text="e", size=3)) if turn == 0 else "done"

    logs = logged(train(plays[0].spec(), script, tmp_path))
    expected = {
        "env/scored": 3 / 8,
        "env/finished": 1 / 8,
        "env/turns": 15 / 8,
        "env/model_errors": 2 / 8,
        "env/bad_arguments": 1 / 8,
        "env/unknown_tool": 1 / 8,
        "env/environment_errors": 1 / 8,
        "env/crash": 1 / 8,
        "reward": (1.0 + 0.5 + 0.5) / 3,
    }
    assert {name: logs[name] for name in expected} == pytest.approx(expected)
    for name in ("env/open_seconds", "env/call_seconds"):
        assert 0 < logs[f"{name}_p50"] <= logs[f"{name}_p95"]
    parts = ("open", "calls", "generate", "forward", "backward", "other")
    assert sum(logs[f"time/{part}"] for part in parts) == pytest.approx(logs["time/step"])
    assert 0 < logs["env_wait"] < 1
    assert logs["env_wait"] == pytest.approx((logs["time/open"] + logs["time/calls"]) / logs["time/step"])


def test_the_scored_share_counts_what_any_reward_function_scored(plays: list[Play], tmp_path: Path) -> None:
    def polite(completions: list[Any], **_: Any) -> list[float | None]:
        return [0.25, *[None] * (len(completions) - 1)]

    def script(rollout: int, turn: int) -> str:
        return tool_call("note", text="a", reward=1.0) if rollout == 1 and turn == 0 else "done"

    logs = logged(train(plays[0].spec(), script, tmp_path, other_rewards=[polite]))
    assert logs["env/scored"] == 2 / 8
    assert [line["reward"] for line in rollouts_of(tmp_path)] == [0.25, 1.0, *[None] * 6]
