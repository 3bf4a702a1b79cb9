"""What watches a run: its journal, its progress on the screen, and the reasons to stop it."""

from __future__ import annotations

import logging
import math
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import wait
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback

from trainer.ors import loop, patience
from trainer.report_text import readable
from trainer.run import RunFolder

LINE_EVERY = 10.0  # seconds between lines of progress
SIGNAL_EVERY = 0.2  # seconds between looks whether a signal has come


class Journal(TrainerCallback):  # type: ignore[misc]
    """Keeps each step's metrics and how far the run is.

    Args:
        run: Where it is kept.
        card: Whether README.md is the run's own, to be written at each checkpoint.
    """

    def __init__(self, run: RunFolder, card: bool) -> None:
        self._run = run
        self._card = card

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say how many steps there will be, which epochs alone do not tell."""
        self._run.update(step=state.global_step, steps=state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Append a step's metrics, or those of an evaluation, whose names all begin with `eval_`."""
        if logs and ("reward" in logs or "eval_reward" in logs):
            self._run.metrics({"step": state.global_step, **logs})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say how far the run is."""
        self._run.update(step=state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say what there is by now."""
        if self._card:
            self._run.card()


class ShowProgress(TrainerCallback):  # type: ignore[misc]
    """A bar with reward, scored share and time left; a line now and then where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line_at = -math.inf
        self._bar: Progress | None = None
        self._started = (0, 0.0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show the bar."""
        self._started = (state.global_step, time.monotonic())
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("training", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[said]}", markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=state.max_steps, completed=state.global_step, said="")
            self._bar.start()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Show the step's reward, and what an evaluation came to."""
        logs = logs or {}
        if "eval_reward" in logs:
            self._console.print(f"step {state.global_step}/{state.max_steps}  evaluation: {_scores(logs, 'eval_')}")
        if "reward" not in logs:
            return
        said = _scores(logs)
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step, said=said)
        elif time.monotonic() - self._line_at > LINE_EVERY or state.global_step == state.max_steps:
            self._line_at = time.monotonic()
            step, start = self._started
            done = max(state.global_step - step, 1)
            left = (time.monotonic() - start) / done * (state.max_steps - state.global_step)
            self._console.print(f"step {state.global_step}/{state.max_steps}  {said}  {left:.0f} s left")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the bar away."""
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it is and give the screen back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def evaluation_progress(say: Callable[[str], None]) -> Callable[[str, int, int], None]:
    """What `evaluate` may tell how far it is: says so in a line now and then, since it may take hours."""
    line_at = time.monotonic()

    def progress(way: str, done: int, rollouts: int) -> None:
        nonlocal line_at
        if time.monotonic() - line_at >= LINE_EVERY:
            line_at = time.monotonic()
            say(f"evaluating, {way}: {done}/{rollouts} rollouts")

    return progress


def _scores(logs: dict[str, Any], prefix: str = "") -> str:
    reward, scored = logs[f"{prefix}reward"], logs.get(f"{prefix}env/scored")
    return f"reward {_number(reward, '.3f')}  scored {_number(scored, '.0%')}"


def _number(value: float | None, form: str) -> str:
    return "none" if value is None or not math.isfinite(value) else format(value, form)


class StopRequested(BaseException):
    """A signal came where there is no step to finish first. No Exception: TRL takes those of tools for tool results.

    Args:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stopper(TrainerCallback):  # type: ignore[misc]
    """Ends a run well: at a signal, or when an environment stays away. The step is finished and a checkpoint saved.

    Every process of a distributed run stops at the same step, whichever of them was told to.

    Args:
        outage_timeout: Seconds for which the run waits for an environment that no session can be opened on.
        say: Told what is going on, a line each time.
    """

    def __init__(self, outage_timeout: float, say: Callable[[str], None]) -> None:
        self.signal: int | None = None
        self.outage: loop.Outage | None = None
        self._outage_timeout = outage_timeout
        self._say = say
        self._training = self._ending = False
        self._kept: dict[int, Any] = {}
        self._waits = _Says(say)

    def __enter__(self) -> Stopper:
        patience.logger.addHandler(self._waits)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._kept[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        patience.logger.removeHandler(self._waits)
        for number, handler in self._kept.items():
            signal.signal(number, handler)

    def end(self) -> None:
        """From here on a signal is heard no more: sessions are closed and the report is written, in a few seconds."""
        self._ending = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._ending:
            self._say(f"{signal.Signals(number).name}: the run is ending already")
            return
        if not self._training or self.signal is not None:
            raise StopRequested(number)
        self.signal = number
        self._say(f"{signal.Signals(number).name}: finishing this step, then saving; once more to stop at once")

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """From here on there are steps to finish."""
        self._training = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """From here on there are none."""
        self._training = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Wait for environments that are away; save and stop where that is asked for or does not help."""
        self._wait_for_environments()
        if _anywhere(self.signal is not None or self.outage is not None):
            control.should_save = True
            control.should_training_stop = True

    def _wait_for_environments(self) -> None:
        told = False
        while self.signal is None and (down := loop.outages()):
            worst = min(down, key=lambda outage: outage.since)
            if time.time() - worst.since > self._outage_timeout:
                self.outage = worst
                return
            if not told:
                self._say(
                    f"{worst.name} has been away since {time.ctime(worst.since)}: {worst.last_error}; waiting for it"
                )
                told = True
            self._try_again(worst.since + self._outage_timeout)
            if self.signal is None and loop.outages():
                time.sleep(1.0)
        if told and self.signal is None:
            self._say("all environments are back")

    def _try_again(self, until: float) -> None:
        """See whether sessions can be opened again: until a moment (seconds since the epoch), and no longer than until
        a signal comes. Opening one may take minutes, where a container that is told to stop has ten seconds."""
        trying = loop.probe()
        try:
            while self.signal is None and time.time() <= until:
                if wait([trying], SIGNAL_EVERY).done:
                    trying.result()
                    return
        finally:
            trying.cancel()


class _Says(logging.Handler):
    """Shows what is logged as the run shows things, so that it does not break the bar."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


def _anywhere(flag: bool) -> bool:
    """Whether the flag is set in any process of a distributed run."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return flag
    from accelerate.utils import gather_object

    return any(gather_object([flag]))


def console() -> Console:
    """Where people are told things: standard error, so that standard output stays for results."""
    return _Plain(file=sys.stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)


class _Plain(Console):
    """A console on which text is text: what an environment says can neither colour nor move anything."""

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print, control characters shown as symbols."""
        super().print(*(readable(item) if isinstance(item, str) else item for item in objects), **settings)
