"""A training run on the play server as a program: `run_play.py FOLDER STEPS URL [URL of the second process]`.

With two URLs, the second process's server is told to die when all is built. Each finished step is a line of
FOLDER/steps-RANK.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
from transformers import TrainerCallback

from benchmarks.scripted import tool_call
from tests.trainer.playing import Play, trainer


class Steps(TrainerCallback):  # type: ignore[misc]
    def __init__(self, path: Path) -> None:
        self._path = path

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        with self._path.open("a") as file:
            file.write(f"{state.global_step}\n")


def note(rollout: int, turn: int) -> str:
    return tool_call("note", text=f"{rollout}", reward=float(rollout), finished=True) if turn == 0 else "done"


def main(folder: Path, steps: int, *urls: str) -> None:
    rank = int(os.environ.get("RANK", "0"))
    url = urls[min(rank, len(urls) - 1)]
    with closing(Play(url)) as play:
        spec = play.spec(num_tasks=8, open_timeout=5.0)
        backend = {"ddp_backend": "gloo"} if "WORLD_SIZE" in os.environ else {}
        made = trainer(spec, note, folder, 4, max_steps=steps, **backend)
        if rank == 1 and len(urls) > 1:
            with suppress(httpx.HTTPError):
                play.die()
    made.add_callback(Steps(folder / f"steps-{rank}"))
    made.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
