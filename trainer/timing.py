"""Where the time of training steps goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class StepClock:
    """Counts seconds by what they were spent on, from one log of training to the next."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._since: tuple[int, float] | None = None  # the step and the moment of the last report

    def begin(self, step: int) -> None:
        """The first step after `step` begins now, if it has not begun."""
        if self._since is None:
            self._since = (step, time.monotonic())

    def add(self, name: str, seconds: float) -> None:
        """Count seconds that were measured elsewhere."""
        self._seconds[name] += seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the seconds of the block."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - start)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing of the block, which is no part of a training step."""
        kept, start = dict(self._seconds), time.monotonic()
        try:
            yield
        finally:
            self._seconds = defaultdict(float, kept)
            if self._since is not None:
                self._since = (self._since[0], self._since[1] + time.monotonic() - start)

    def report(self, step: int) -> dict[str, float]:
        """Seconds a step since the last report, as `time/…`, what was not measured as `time/other`; and `env_wait`, the
        share in which the trainer only waited for environments. Empty where no step has begun."""
        if self._since is None:
            return {}
        first, start = self._since
        steps, now = max(step - first, 1), time.monotonic()
        spent, self._seconds, self._since = self._seconds, defaultdict(float), (step, now)
        wall = max(now - start, 1e-9)
        parts = {name: spent[name] for name in ("open", "calls", "generate", "forward")}
        parts["backward"] = max(spent["training_step"] - spent["prepare"] - spent["forward"], 0.0)
        parts["other"] = max(wall - sum(parts.values()), 0.0)
        return {
            **{f"time/{name}": value / steps for name, value in parts.items()},
            "time/step": wall / steps,
            "env_wait": (parts["open"] + parts["calls"]) / wall,
        }
