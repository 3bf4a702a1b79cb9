"""Run folders as ors-train leaves them, the same at every call: a finished demo, a failed run of two environments."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DEMO_STEPS = 50
GROUPS = 8
GENERATIONS = 8
WORDS = ("quiet", "harbour", "lantern", "copper", "meadow", "violet", "ninety", "granite", "saffron", "tundra")
SECRET = "hunter2"

Row = dict[str, Any]


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_lines(path: Path, rows: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row) + "\n")


def facts(**changes: object) -> Row:
    """Returns a finished run's run.json."""
    return {
        "command": "demo",
        "model": ".cache/starter/qwen3-0.5m",
        "seed": 0,
        "started": "2026-11-29T18:02:11+00:00",
        "finished": "2026-11-29T18:05:40+00:00",
        "status": "finished",
        "message": None,
        "versions": {"python": "3.11.9", "torch": "2.13.0", "trl": "1.16.0", "openreward": "0.1.167"},
        "environments": [
            {"name": "echo", "url": "http://127.0.0.1:8000", "env_name": "echo", "split": "train", "num_tasks": 128}
        ],
        "steps": DEMO_STEPS,
        "step": DEMO_STEPS,
        "resumed_from": None,
        "seconds": {"total": 209.4, "training": 121.7},
    } | changes


def evaluation() -> Row:
    """Returns the demo's eval.json."""

    def scores(success: float, low: float, high: float, n: int) -> Row:
        return {"success": success, "low": low, "high": high, "judged": n, "n": n, "scored": 1.0, "reward": success}

    common = {"split": "test", "tasks": 64, "rollouts_per_task": 4}
    return {
        "before": common | {"sampled": scores(0.141, 0.103, 0.189, 256), "greedy": scores(0.156, 0.087, 0.264, 64)},
        "after": common | {"sampled": scores(0.910, 0.869, 0.940, 256), "greedy": scores(0.984, 0.917, 0.997, 64)},
    }


def call(tool: str = "echo", **changes: object) -> Row:
    return {
        "tool": tool,
        "arguments": {"text": "quiet harbour"},
        "result": "Correct.",
        "reward": 1.0,
        "finished": True,
        "error": None,
        "seconds": 0.0052,
    } | changes


def rollout(step: int = 1, task: int = 0, *, calls: list[Row] | None = None, **changes: object) -> Row:
    """Returns a line of rollouts.jsonl whose completion makes the given calls, one a turn."""
    calls = [call()] if calls is None else calls
    completion: list[Row] = []
    for made in calls:
        function = {"name": made["tool"], "arguments": made["arguments"]}
        completion.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        )
        completion.append({"role": "tool", "name": made["tool"], "content": str(made["result"])})
    scores = [made["reward"] for made in calls if made["reward"] is not None]
    return {
        "step": step,
        "mode": "train",
        "phase": "train",
        "environment": "echo",
        "split": "train",
        "task_index": task,
        "prompt": [{"role": "user", "content": "Repeat exactly, with the echo tool: quiet harbour"}],
        "completion": completion,
        "calls": calls,
        "reward": scores[-1] if scores else None,
        "finished": any(made["finished"] for made in calls),
        "ending": "finished",
        "error": None,
        "seconds": {"open": 0.031, "calls": sum(made["seconds"] for made in calls)},
    } | changes


def demo_rollouts(steps: int = DEMO_STEPS) -> Iterable[Row]:
    """Yields the demo's training rollouts: a stock answer at first, copies of the target later."""
    chance = random.Random(0)
    for step in range(1, steps + 1):
        for group in range(GROUPS):
            task = (step * GROUPS + group) % 128
            target = " ".join(chance.sample(WORDS, 2))
            prompt = [{"role": "user", "content": f"Repeat exactly, with the echo tool: {target}"}]
            for _ in range(GENERATIONS):
                if chance.random() < 0.01:
                    wrong = call(
                        "ecko", result="There is no tool ecko; there are: echo.", reward=None, error="unknown_tool"
                    )
                    yield rollout(step, task, calls=[wrong | {"finished": False}], prompt=prompt, ending="stopped")
                elif chance.random() < 0.12 + 0.78 * step / steps:
                    right = call(arguments={"text": target}, seconds=round(0.003 + 0.004 * chance.random(), 4))
                    yield rollout(step, task, calls=[right], prompt=prompt)
                else:
                    stock = call(
                        arguments={"text": "hello world"}, result="Not the target.", reward=0.0, finished=False
                    )
                    yield rollout(step, task, calls=[stock], prompt=prompt, ending="stopped")


def demo_metrics(steps: int = DEMO_STEPS) -> Iterable[Row]:
    chance = random.Random(1)
    for step in range(1, steps + 1):
        reward = min(1.0, max(0.0, 0.12 + 0.78 * step / steps + chance.gauss(0, 0.05)))
        parts = {"open": 0.21, "calls": 0.16, "generate": 0.52, "forward": 0.17, "backward": 0.31, "other": 0.09}
        times = {f"time/{part}": mean * chance.uniform(0.85, 1.2) for part, mean in parts.items()}
        yield {
            "step": step,
            "reward": reward,
            "reward_std": 0.3,
            "loss": 0.01,
            "env/scored": 1 - chance.choice((0, 0, 1, 2)) / 64,
            "env/finished": reward,
            "env/turns": 1.0,
            "env/model_errors": 0.01,
            "env/environment_errors": 0.0,
            "env_wait": 0.25,
            **times,
            "time/step": sum(times.values()),
        }


def finished_demo(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "run.json", facts())
    write_json(folder / "eval.json", evaluation())
    write_lines(folder / "metrics.jsonl", demo_metrics())
    write_lines(folder / "rollouts.jsonl", demo_rollouts())
    return folder


def failed_mixture(folder: Path) -> Path:
    """Two environments, of which one begins to crash, then stays away; the run stops at step 18."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(2)
    message = f"environment sql at http://reader:{SECRET}@db.example:8000 is away: connection refused"
    sql = {
        "name": "sql",
        "url": f"http://reader:{SECRET}@db.example:8000/?key={SECRET}",
        "env_name": "sql",
        "split": "train",
    }
    write_json(
        folder / "run.json",
        facts(
            command="train",
            model="Qwen/Qwen3-0.6B",
            status="failed",
            message=message,
            finished=None,
            step=18,
            steps=200,
            environments=[*facts()["environments"], sql],
            seconds={"total": 1284.0, "training": 1190.5},
        ),
    )
    rows, logged = [], []
    for step in range(1, 19):
        of_step = [
            _mixture_rollout(chance, step, task, name)
            for name in ("echo", "sql")
            for task in range(4)
            for _ in range(4)
        ]
        rows += of_step
        rewards = [row["reward"] for row in of_step if row["reward"] is not None]
        logged.append(
            {
                "step": step,
                "reward": sum(rewards) / len(rewards) if rewards else None,
                "env/scored": len(rewards) / len(of_step),
                "time/open": 0.4 + 0.1 * step,
                "time/calls": 2.0 + chance.random(),
                "time/generate": 21.0 + chance.random(),
                "time/forward": 4.0,
                "time/backward": 9.0,
                "time/other": 0.8,
                "time/step": 39.0 + 0.1 * step,
                "env_wait": 0.07,
            }
        )
    write_lines(folder / "metrics.jsonl", logged)
    write_lines(folder / "rollouts.jsonl", rows)
    return folder


def _mixture_rollout(chance: random.Random, step: int, task: int, name: str) -> Row:
    if name == "echo":
        return rollout(step, task)
    query = "SELECT name, count(*) FROM orders\n JOIN customers USING (customer_id)\nGROUP BY name\nHAVING count(*) > 3"
    table = "\n".join(f"{word:<12}{chance.randint(1, 99):>4}" for word in WORDS)
    look = call("run_query", arguments={"query": query}, result=table, reward=None, finished=False, seconds=0.21)
    answer = call(
        "submit", arguments={"rows": [["quiet", 4]], "ordered": True}, result="2 of 3 rows match.", reward=0.67
    )
    prompt = [
        {"role": "system", "content": "You answer questions about a shop's database. Use the tools."},
        {
            "role": "user",
            "content": "Which customers ordered more than three times? " + "Tables: orders, customers. " * 40,
        },
    ]
    common = {"environment": "sql", "prompt": prompt}
    luck = chance.random()
    if step > 14 and luck < 0.6:
        text = f"could not connect to http://reader:{SECRET}@db.example:8000"
        return rollout(step, task, calls=[], ending="open_failed", error=text, **common)
    if luck < 0.04 * step:
        kind = chance.choice(("crash", "timeout", "unreachable"))
        broken = call(
            "run_query", arguments={"query": query}, result="The environment failed.", reward=None, error=kind
        )
        return rollout(step, task, calls=[look, broken | {"finished": False}], ending="environment_error", **common)
    if luck > 0.9:
        wrong = call(
            "run_query", arguments={"sql": "x"}, result="query: field required", reward=None, error="bad_arguments"
        )
        return rollout(step, task, calls=[wrong | {"finished": False}, look, answer], **common)
    return rollout(step, task, calls=[look, answer], **common)


def empty_run(folder: Path) -> Path:
    """A run that ended before its first step was logged."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "run.json", facts(status="interrupted", message="stopped by Ctrl-C", step=0, seconds={"total": 3.1})
    )
    (folder / "metrics.jsonl").touch()
    (folder / "rollouts.jsonl").touch()
    return folder
