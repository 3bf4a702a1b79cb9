"""Three ways to play the same batch of episodes: TRL's adapter under its trainer, ours under ours, and a bare program.

Each is made once and plays step after step, so that connections are warm, as in a run. Generation is scripted, and only
the time in which the trainer's thread is held up for environments is counted: in opening, calling and closing sessions.
What TRL's loop does besides, chat templates and tokens, is the same for both trainers and is left out.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks import scripted

Seconds = Sequence[Sequence[float]]
"""How long each call takes: by rollout, then by turn."""


class Contender(Protocol):
    """One way to play a batch."""

    name: str

    def step(self, seconds: Seconds) -> float:
        """Play one batch; return its environment time in seconds."""

    def close(self) -> None:
        """Give back what is open."""


class Clock:
    """Adds up the time spent in the functions it wraps, once where they call each other."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - start

        return call

    def wrap(self, owner: type, *names: str) -> None:
        """Have a class's methods timed."""
        for name in names:
            setattr(owner, name, self.timed(getattr(owner, name)))


class _UnderTrainer:
    """A trainer that plays batches with an adapter, its model scripted."""

    name: str

    def __init__(self, trainer_class: type, spec: Any, timed: Sequence[str], folder: Path, rollouts: int) -> None:
        self._clock = Clock()
        self._said: Seconds = []
        factory = spec.environment_factory
        self._clock.wrap(type(factory()), "reset", "wait", *timed)
        self._trainer = scripted.scripted(trainer_class, self._say)(
            model=scripted.model(),
            processing_class=scripted.tokenizer(),
            args=scripted.arguments(folder / self.name, rollouts),
            train_dataset=spec.train_dataset,
            environment_factory=factory,
            reward_funcs=spec.reward_funcs,
        )
        self._trainer.model.train()
        rows = list(spec.train_dataset)
        self._batch = [rows[number // 4 % len(rows)] for number in range(rollouts)]

    def _say(self, rollout: int, turn: int) -> str:
        turns = self._said[rollout]
        return scripted.tool_call("wait", seconds=turns[turn]) if turn < len(turns) else "done"

    def step(self, seconds: Seconds) -> float:
        self._said = seconds
        self._clock.seconds = 0.0
        self._trainer._generate_and_score_completions([dict(row) for row in self._batch])
        calls = self._trainer._metrics["train"]["tools/call_frequency"][-1]
        if calls != len(seconds[0]) or self._trainer._metrics["train"]["reward"][-1] != 1.0:
            raise RuntimeError(f"{self.name}: not every call was made and scored")
        return self._clock.seconds

    def close(self) -> None:
        for environment in self._trainer.environments:
            environment._close()


class TRL(_UnderTrainer):
    """TRL's own adapter and loop."""

    name = "trl"

    def __init__(self, url: str, folder: Path, rollouts: int) -> None:
        os.environ.update(OPENREWARD_API_URL=url, OPENREWARD_SESSION_URL=url, OPENREWARD_API_KEY="none")
        os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", OPENREWARD_DISABLE_UPDATE_CHECK="1")
        from trl import GRPOTrainer
        from trl.experimental.openreward import OpenRewardSpec

        spec = OpenRewardSpec(url, env_name="waiting", num_tasks=max(rollouts // 4, 1))
        super().__init__(GRPOTrainer, spec, (), folder, rollouts)


class Ours(_UnderTrainer):
    """This project's adapter under its trainer."""

    name = "ours"

    def __init__(self, url: str, folder: Path, rollouts: int) -> None:
        from trainer import EnvGRPOTrainer, OpenRewardSpec

        class Timed(EnvGRPOTrainer):
            pass

        spec = OpenRewardSpec(url, env_name="waiting", num_tasks=max(rollouts // 4, 1))
        super().__init__(Timed, spec, ("_close",), folder, rollouts)
        self._clock.wrap(Timed, "_prepare_rollouts")


class Bare:
    """The floor: the same opens and calls by a program that does nothing else, on the SDK's asynchronous client."""

    name = "floor"

    def __init__(self, url: str, folder: Path, rollouts: int) -> None:
        from openreward.api.environments.client import AsyncEnvironmentsAPI

        self._runner = asyncio.Runner()
        self._api = AsyncEnvironmentsAPI(base_url=url, api_key="")
        self._environment: Any = None
        self._url = url

    def step(self, seconds: Seconds) -> float:
        return self._runner.run(self._step(seconds))

    async def _step(self, seconds: Seconds) -> float:
        if self._environment is None:
            self._environment = self._api.get("waiting", variant="waiting", base_url=self._url)
        sessions = [self._environment.session(split="train", index=number // 4) for number in range(len(seconds))]

        async def opened(session: Any) -> None:
            await session.__aenter__()
            await session.get_prompt()

        start = time.perf_counter()
        await asyncio.gather(*map(opened, sessions))
        for turn in zip(*seconds, strict=True):
            calls = (s.call_tool("wait", {"seconds": wait}) for s, wait in zip(sessions, turn, strict=True))
            await asyncio.gather(*calls)
        taken = time.perf_counter() - start
        await asyncio.gather(*(session.__aexit__(None, None, None) for session in sessions))
        return taken

    def close(self) -> None:
        self._runner.run(self._api.aclose())
        self._runner.close()
