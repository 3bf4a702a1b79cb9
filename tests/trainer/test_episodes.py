"""What is kept of episodes: why they ended, what a batch logs, and lines that are whole, bounded, strict JSON."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from trainer.episodes import MAX_LINE_CHARACTERS, Episode, RolloutLog, ending, metrics
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import FAILURE_KINDS, MODEL_ERRORS, EnvironmentFailure
from trainer.ors.rewards import Reward
from trainer.ors.rollout import Call, Factory, Plan, Rollout, Task

CALL = {"type": "function", "function": {"name": "echo", "arguments": {"text": "x"}}}
SAYS = {"role": "assistant", "content": "x"}
CALLS = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "name": "echo", "content": "x"}


def rollout(environment: str = "echo", **state: Any) -> Rollout:
    """An adapter in some state; nothing is sent."""
    made = Factory(Plan(environment, Endpoint("http://127.0.0.1:1"), "train", (), Reward(), False))()
    made.task = Task(environment, "train", 3)
    for name, value in state.items():
        setattr(made, name, value)
    return made


def call(error: Any = None, seconds: float = 0.1, **more: Any) -> Call:
    return Call(
        **{"tool": "echo", "arguments": {}, "result": "x", "reward": None, "finished": False, **more},
        error=error,
        seconds=seconds,
    )


def episode(made: Rollout, completion: list[Any] | None = None, reward: float | None = None, **more: Any) -> Episode:
    return Episode(
        made,
        [{"role": "user", "content": "Go."}],
        completion or [SAYS],
        more.get("calls", made.calls),
        reward,
        more.get("ending", "stopped"),
    )


FAILED = EnvironmentFailure("crash", "it broke")


@pytest.mark.parametrize(
    ("made", "completion", "cut", "expected"),
    [
        (rollout(finished=True), [CALLS, RESULT, SAYS], False, "finished"),
        (rollout(), [CALLS, RESULT, SAYS], False, "stopped"),
        (rollout(), [CALLS, RESULT, SAYS], True, "length"),
        (rollout(), [CALLS], True, "length"),
        (rollout(), [CALLS], False, "length"),
        (rollout(), [CALLS, RESULT, CALLS, RESULT, CALLS], False, "tool_limit"),
        (rollout(failure=FAILED, calls=[call("crash")]), [CALLS, RESULT, SAYS], False, "environment_error"),
        (rollout(failure=FAILED), [SAYS], False, "open_failed"),
        (rollout(failure=FAILED, calls=[call("crash", seconds=0.0)]), [CALLS, RESULT, SAYS], False, "open_failed"),
    ],
)
def test_why_an_episode_ended(made: Rollout, completion: list[Any], cut: bool, expected: str) -> None:
    assert ending(made, completion, cut, turns_limit=2) == expected


def test_metrics_are_shares_means_and_quantiles_over_all_and_by_environment() -> None:
    refused = [call("bad_arguments", 0.2), call("after_end", 0.0)]
    unmade = [call("unknown_tool", 0.0)] * 2
    batch = [
        episode(rollout(finished=True, open_seconds=1.0, calls=[call(seconds=0.4)]), [CALLS, RESULT, SAYS], 1.0),
        episode(
            rollout(open_seconds=2.0, calls=refused),
            [CALLS, RESULT, CALLS, RESULT, SAYS],
            -1.0,
            calls=[*unmade, *refused],
        ),
        episode(rollout("sql", open_seconds=3.0, failure=FAILED, calls=[call("crash", 0.6)]), [CALLS, RESULT, SAYS]),
        episode(rollout("sql", open_seconds=4.0), [SAYS], 0.5),
    ]
    logged = {name: sum(values) / len(values) for name, values in metrics(batch, by_environment=True).items()}
    none = dict.fromkeys((*MODEL_ERRORS, *FAILURE_KINDS), 0.0)
    assert logged == pytest.approx(
        {f"env/{kind}": value for kind, value in none.items()}
        | {
            "env/scored": 3 / 4,
            "env/finished": 1 / 4,
            "env/turns": 8 / 4,
            "env/model_errors": 4 / 4,
            "env/environment_errors": 1 / 4,
            "env/bad_arguments": 1 / 4,
            "env/after_end": 1 / 4,
            "env/unknown_tool": 2 / 4,
            "env/crash": 1 / 4,
            "env/open_seconds_p50": 2.0,
            "env/open_seconds_p95": 4.0,
            "env/call_seconds_p50": 0.4,
            "env/call_seconds_p95": 0.6,
        }
        | {f"env/echo/{kind}": value for kind, value in none.items()}
        | {
            "env/echo/scored": 1.0,
            "env/echo/finished": 1 / 2,
            "env/echo/turns": 5 / 2,
            "env/echo/model_errors": 4 / 2,
            "env/echo/environment_errors": 0.0,
            "env/echo/bad_arguments": 1 / 2,
            "env/echo/after_end": 1 / 2,
            "env/echo/unknown_tool": 2 / 2,
            "env/echo/open_seconds_p50": 1.0,
            "env/echo/open_seconds_p95": 2.0,
            "env/echo/call_seconds_p50": 0.2,
            "env/echo/call_seconds_p95": 0.4,
            "env/echo/reward": 0.0,
        }
        | {f"env/sql/{kind}": value for kind, value in none.items()}
        | {
            "env/sql/scored": 1 / 2,
            "env/sql/finished": 0.0,
            "env/sql/turns": 3 / 2,
            "env/sql/model_errors": 0.0,
            "env/sql/environment_errors": 1 / 2,
            "env/sql/crash": 1 / 2,
            "env/sql/open_seconds_p50": 3.0,
            "env/sql/open_seconds_p95": 4.0,
            "env/sql/call_seconds_p50": 0.6,
            "env/sql/call_seconds_p95": 0.6,
            "env/sql/reward": 0.5,
        }
    )


def test_a_run_on_one_environment_logs_nothing_by_its_name() -> None:
    logged = metrics([episode(rollout())], by_environment=False)
    assert not [name for name in logged if name.startswith("env/echo")]


def write(path: Path, *episodes: Episode) -> list[dict[str, Any]]:
    RolloutLog(path).write(episodes, step=7, mode="train", phase="train")
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def test_a_line_has_everything_that_is_known_of_a_rollout(tmp_path: Path) -> None:
    made = rollout(open_seconds=0.5, calls=[call(arguments={"text": "é"}, reward=1.0, finished=True)], finished=True)
    lines = write(tmp_path / "rollouts.jsonl", episode(made, [CALLS, RESULT], 1.0, ending="finished"))
    assert lines == [
        {
            "step": 7,
            "mode": "train",
            "phase": "train",
            "environment": "echo",
            "split": "train",
            "task_index": 3,
            "prompt": [{"role": "user", "content": "Go."}],
            "completion": [CALLS, RESULT],
            "calls": [
                {
                    "tool": "echo",
                    "arguments": {"text": "é"},
                    "result": "x",
                    "reward": 1.0,
                    "finished": True,
                    "error": None,
                    "seconds": 0.1,
                }
            ],
            "reward": 1.0,
            "finished": True,
            "ending": "finished",
            "error": None,
            "seconds": {"open": 0.5, "calls": 0.1},
        }
    ]


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "x" * 1_000_000},
        {f"key {number}": number for number in range(100_000)},
        {"k" * 1_000_000: 1},
        {"list": ["x" * 100] * 100_000},
        {"deep": deep(50_000)},
        {"number": float("nan"), "deep": deep(50_000)},
        {"wide and deep": [[[[[["x" * 1000] * 50] * 50] * 4] * 2] * 2] * 2},
        {"number": float("nan"), "other": [float("inf")]},
        {"half a pair": "\ud800"},
        {"lines": "\u2028\r\n\x00"},
    ],
    ids=[
        "long text",
        "many keys",
        "long key",
        "long list",
        "deep",
        "deep and not finite",
        "wide",
        "not finite",
        "surrogate",
        "controls",
    ],
)
def test_a_line_is_bounded_and_strict_json_whatever_the_model_wrote(tmp_path: Path, arguments: dict[str, Any]) -> None:
    asked = {
        "role": "assistant",
        "tool_calls": [{"type": "function", "function": {"name": "echo", "arguments": arguments}}],
    }
    made = rollout(calls=[call(arguments=arguments)])
    path = tmp_path / "rollouts.jsonl"
    lines = write(path, episode(made, [asked, RESULT], 0.5), episode(rollout(), [SAYS]))
    assert [line["reward"] for line in lines] == [0.5, None]
    assert max(len(line) for line in path.read_bytes().splitlines()) <= MAX_LINE_CHARACTERS


def test_what_is_cut_is_said(tmp_path: Path) -> None:
    long = {"role": "tool", "name": "echo", "content": "y" * 300_000}
    lines = write(tmp_path / "rollouts.jsonl", episode(rollout(), [CALLS, long, SAYS]))
    content = lines[0]["completion"][1]["content"]
    assert content.startswith("yyyy") and content.endswith(f"… [{300_000 - content.count('y')} characters cut]")
    assert lines[0]["completion"][0] == CALLS


def _append(path: Path, text: str) -> None:
    log = RolloutLog(path)
    for _ in range(50):
        log.write([episode(rollout(), [{"role": "assistant", "content": text * 10_000}])] * 2, step=1)


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    spawned = multiprocessing.get_context("spawn")
    processes = [spawned.Process(target=_append, args=(path, text)) for text in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    said = [json.loads(line)["completion"][0]["content"] for line in path.read_text().splitlines()]
    assert sorted(said) == ["a" * 10_000] * 100 + ["b" * 10_000] * 100
