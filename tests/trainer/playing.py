"""Training runs with a scripted model against `play_server`, and what the server recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import torch

from benchmarks.scripted import Script, arguments, model, scripted, tokenizer
from trainer import EnvGRPOTrainer, OpenRewardSpec

SERVER = Path(__file__).with_name("play_server.py")
PATIENCE = 60.0

torch.set_num_threads(1)  # two take twice as long for a model this small


class Play:
    """The play server at a URL, seen by a test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE)

    def close(self) -> None:
        self._http.close()

    def spec(self, **keywords: Any) -> OpenRewardSpec:
        return OpenRewardSpec(self.url, env_name="play", **{"num_tasks": 8, **keywords})

    def clear(self) -> None:
        self._http.post("/clear").raise_for_status()

    def open_together(self, party: int) -> None:
        self._http.post(f"/open-together?party={party}").raise_for_status()

    def die(self) -> None:
        self._http.post("/die")

    def record(self) -> dict[str, Any]:
        told: dict[str, Any] = self._http.get("/record").raise_for_status().json()
        return told

    def await_record(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The record once something is true of it, or as it is after a while."""
        deadline = time.monotonic() + PATIENCE
        while not true(told := self.record()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return told

    def tools(self) -> list[dict[str, Any]]:
        """The tools as the server lists them."""
        listed: list[dict[str, Any]] = self._http.get("/play/tools").raise_for_status().json()["tools"]
        return listed


def trainer(
    spec: Any, script: Script, folder: Path, rollouts: int = 8, *, base: type = EnvGRPOTrainer, **settings: Any
) -> Any:
    """A trainer for a spec or a mixture, whose model says what the script says; it has not begun."""
    log = {"rollout_log": folder / "rollouts.jsonl"} if issubclass(base, EnvGRPOTrainer) else {}
    evaluated = {"eval_dataset": settings.pop("eval_dataset")} if "eval_dataset" in settings else {}
    others = settings.pop("other_rewards", [])
    tools = {"tools": settings.pop("tools")} if "tools" in settings else {}
    return scripted(base, script)(
        model=model(),
        processing_class=tokenizer(),
        args=arguments(folder, rollouts, **settings),
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=[spec.reward_funcs, *others] if others else spec.reward_funcs,
        **log,
        **evaluated,
        **tools,
    )


def train(spec: Any, script: Script, folder: Path, rollouts: int = 8, **settings: Any) -> Any:
    """Train for a step, or `max_steps`, and return the trainer."""
    trained = trainer(spec, script, folder, rollouts, **settings)
    trained.train()
    return trained


def rollouts_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's rollouts.jsonl, each of which is strict JSON."""
    lines = (folder / "rollouts.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=_no_constant) for line in lines]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def logged(trained: Any, step: int = 0) -> dict[str, float]:
    """What was logged for a step."""
    steps: list[dict[str, float]] = [entry for entry in trained.state.log_history if "loss" in entry]
    return steps[step]
