"""A program that opens sessions and then ends in a given way: `python -m tests.trainer.leaving URL HOW`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from typing import Any

from trainer import OpenRewardSpec

SESSIONS = 16
SETTINGS: dict[str, Any] = {"split": "train", "keepalive": float(os.environ.get("KEEPALIVE", "15"))}


def opened(url: str) -> list[Any]:
    """Adapters with an open session each, the openings launched together."""
    factory = OpenRewardSpec(url, **SETTINGS).environment_factory
    rollouts = [factory() for _ in range(SESSIONS)]
    for rollout in rollouts:
        rollout._prepare({"task_index": 0})
    for rollout in rollouts:
        rollout.reset(task_index=0)
        if rollout.failure is not None:
            raise rollout.failure
    return rollouts


def say(text: str) -> None:
    print(text, flush=True)


def main(url: str, how: str) -> None:
    if "WITHOUT_UVLOOP" in os.environ:
        sys.modules["uvloop"] = None  # type: ignore[assignment]
    if how == "own handler":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    if how == "spawn":
        worker = multiprocessing.get_context("spawn").Process(target=opened, args=(url,))
        worker.start()
        worker.join()
        say("ended")
        time.sleep(120)
    rollouts = opened(url)
    if how == "error":
        raise LookupError("on purpose")
    if how == "exit":
        sys.exit(3)
    if how == "closing":
        for rollout in rollouts:
            rollout._close()
        return
    if how == "idle":
        time.sleep(4)
        return
    if how == "fork":
        fork(rollouts)
        return
    if how in ("signal", "own handler", "opening", "server gone"):
        if how == "opening":
            for rollout in rollouts:
                rollout._prepare({"task_index": 0, "split": "endless"})
        say("open")
        if how == "server gone":
            sys.stdin.readline()
            return
        while True:
            time.sleep(0.1)


def fork(rollouts: list[Any]) -> None:
    """A child ends; its parent's sessions go on. The child may open its own."""
    child = os.fork()
    if child == 0:
        own = type(rollouts[0])()
        own.reset(task_index=1)
        own.say(text="from the child")
        if own.failure is not None:
            sys.exit(9)
        rollouts[0].reset(task_index=1)
        sys.exit(5)
    _, status = os.waitpid(child, 0)
    said = [rollout.say(text="still here") for rollout in rollouts]
    if said != ["still here"] * SESSIONS:
        raise AssertionError(said)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
