"""`ors-train demo`: a model that learns before your eyes, on a laptop, with no account and no hub."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer.flags import Flags
from trainer.ors.errors import ConfigurationError
from trainer.run import RunFolder, rotate
from trainer.values import check_bounds

START_SECONDS = 60.0

# Found on one CPU core with three seeds: a larger learning rate (1e-3) forgets, fewer generations learn too slowly.
RECIPE: dict[str, Any] = {
    "per_device_train_batch_size": 64,
    "per_device_eval_batch_size": 64,
    "num_generations": 8,
    "learning_rate": 5e-4,
    "lr_scheduler_type": "linear",
    "temperature": 1.0,
    "max_completion_length": 48,
    "max_tool_calling_iterations": 1,
    "save_steps": 10,
    "model_name_or_path": "starter",
}
STEPS = 50


def parser() -> Flags:
    """The demo's own few flags."""
    flags = Flags(
        prog="ors-train demo",
        description="Trains a small model on the echo environment over HTTP, with held-out tasks before and after.",
        epilog="example: ors-train demo --seed 1 --output_dir runs/seed-1",
    )
    flags.add_argument(
        "--seed", type=int, default=0, help="of the model, the tasks' order and the sampling (default 0)"
    )
    flags.add_argument("--steps", type=int, default=STEPS, help=f"GRPO steps (default {STEPS})")
    flags.add_argument("--output_dir", type=Path, default=Path("runs/demo"), help="the run folder (default runs/demo)")
    flags.add_argument("--model", default="starter", help="another model: a folder or a hub name")
    flags.add_argument(
        "--eval_rollouts", type=int, default=4, help="sampled rollouts of each held-out task (default 4)"
    )
    flags.add_argument(
        "--resume",
        nargs="?",
        const="auto",
        metavar="CHECKPOINT",
        help="go on with the run in the folder: from its last checkpoint (auto, or nothing), or from this one",
    )
    return flags


def main(arguments: Sequence[str]) -> int:
    """Run the demo; the exit status."""
    flags = parser().parse_args(arguments)
    for key in ("steps", "eval_rollouts"):
        if getattr(flags, key) < 1:
            raise ConfigurationError(f"--{key} is at least 1, not {getattr(flags, key)}")
    check_bounds("seed", flags.seed, "--seed")
    _check_folder(flags.output_dir, flags.resume)
    from trainer.callbacks import console

    screen = console()
    with echo_server() as url:
        screen.print(f"the echo environment is served at {url}")
        import torch

        from trainer.arguments import EnvironmentConfig
        from trainer.config import load
        from trainer.train import run

        torch.set_num_threads(1)  # two are slower than one for a model this small
        if flags.resume is None and (earlier := rotate(flags.output_dir)) is not None:
            screen.print(f"the earlier run is now in {earlier}")
        echo = EnvironmentConfig(url=url, env_name="echo", eval_split="test", unfinished_reward=0.0)
        given = {
            **RECIPE,
            "output_dir": str(flags.output_dir),
            "seed": flags.seed,
            "max_steps": flags.steps,
            "model_name_or_path": flags.model,
            "eval_rollouts": flags.eval_rollouts,
            "resume": flags.resume,
        }
        return run(load([], given, entries=[echo]), screen)


def _check_folder(path: Path, resume: str | None) -> None:
    """Raises ConfigurationError for a folder of other things than a run, or of no run that could go on."""
    earlier = RunFolder(path) if path.exists() else None
    if earlier is not None:
        earlier.check_alone()
    if resume == "auto" and (earlier is None or not earlier.holds_a_run()):
        raise ConfigurationError(f"{path} holds no run to go on with: leave --resume out to start one")


@contextmanager
def echo_server() -> Iterator[str]:
    """The echo environment, served by a process of its own on a free port, until the block ends."""
    _go_straight_to("127.0.0.1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = ["envs.cli", "serve", "echo", "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "trainer.leash", *serve]
    with tempfile.TemporaryFile() as log:
        # A group of its own: Ctrl-C is for the trainer, which still has sessions to close here.
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _await_health(server, f"http://127.0.0.1:{port}", log.fileno())
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            try:
                server.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.communicate()


def _go_straight_to(host: str) -> None:
    """What the user has set for other environments must not send the demo elsewhere."""
    os.environ.pop("OPENREWARD_SESSION_URL", None)
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), host]))


def _await_health(server: subprocess.Popen[bytes], url: str, log: int) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            direct.open(f"{url}/health", timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    said = os.pread(log, 4096, max(os.fstat(log).st_size - 4096, 0)).decode(errors="replace").strip().splitlines()
    raise ConfigurationError(
        f"the echo environment did not start: {said[-1] if said else 'it said nothing'} (is the envs extra installed?)"
    )
