"""Runs that end before their time: told to stop by a signal, or left alone by their environment."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from transformers import TrainerControl

from tests.servers import free_port, serve_script
from tests.trainer.commands import GYM, SMALL, Command, happened, record, rows, started, steps, trained, written
from tests.trainer.conftest import until
from tests.trainer.scripted_server import Protocol, Reply, Request, scripted
from trainer.callbacks import Stopper
from trainer.ors import loop
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary.jsonl"


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread while the block runs; what fails there fails the test."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
            os.kill(os.getpid(), signal.SIGTERM)  # ends the run that waits for what did not come

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


def after_steps(run: Path, number: int) -> Callable[[], bool]:
    return lambda: len(rows(run / "metrics.jsonl")) >= number


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_step_and_saves_and_the_run_goes_on_from_there(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path, number: signal.Signals, status: int
) -> None:
    def interrupt() -> None:
        until(after_steps(run, 2), 90)
        os.kill(os.getpid(), number)

    handler = signal.getsignal(number)
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        words = (
            "train",
            "--url",
            url,
            "--env_name",
            "gym",
            "--model_name_or_path",
            tiny_model,
            "--output_dir",
            run,
            *SMALL,
        )
        with meanwhile(interrupt):
            said = ors_train(*words, "--max_steps", "2000")
        assert said.status == status
        assert f"{number.name}: finishing this step, then saving; once more to stop at once" in said.err
        last = record(run)["step"]
        assert record(run)["status"] == "interrupted"
        assert f"stopped by a signal after step {last}" in record(run)["message"]
        assert (run / f"checkpoint-{last}" / "trainer_state.json").is_file()
        assert (run / "report.html").is_file()
        assert not (run / "model").exists()
        until(lambda: happened(diary, "setup") == happened(diary, "teardown"))
        assert signal.getsignal(number) == handler

        said = ors_train(*words, "--max_steps", last + 2, "--resume", "auto")
        assert said.status == 0, said.err
        assert steps(run) == list(range(1, last + 3))
        assert trained(run) == [step for step in range(1, last + 3) for _ in range(4)]


@pytest.mark.slow
def test_a_signal_in_an_evaluation_stops_at_once_and_the_evaluation_happens_again(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path
) -> None:
    def interrupt() -> None:
        until(lambda: len(rows(run / "rollouts.jsonl")) >= 1, 90)
        os.kill(os.getpid(), signal.SIGTERM)

    with serve_script(GYM, env={"DIARY": str(diary), "SETUP_SECONDS": "0.3"}) as url:
        words = (
            "train",
            "--url",
            url,
            "--env_name",
            "gym",
            "--model_name_or_path",
            tiny_model,
            "--output_dir",
            run,
            *SMALL,
        )
        words = (*words, "--eval_split", "test", "--per_device_eval_batch_size", 2, "--eval_rollouts", 2)
        with meanwhile(interrupt):
            said = ors_train(*words)
        assert said.status == 143
        assert (record(run)["status"], record(run)["message"]) == ("interrupted", "stopped at once by SIGTERM")
        until(lambda: happened(diary, "setup") == happened(diary, "teardown"))
        assert ors_train(*words, "--resume", "auto").status == 0
        assert [row["phase"] for row in rows(run / "rollouts.jsonl")].count("before") == 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_sessions_are_closed_does_not_keep_the_end_of_the_run_from_being_told(
    ors_train: Command, tiny_model: Path, run: Path, number: signal.Signals
) -> None:
    async def prompt(request: Request, reply: Reply) -> None:
        if (run / "run.json").exists():  # the evaluation has begun
            if not stopped:
                stopped.append("playing")
                os.kill(os.getpid(), number)
            await asyncio.sleep(600)
        await reply.json([{"type": "text", "text": "Play."}])

    async def delete(request: Request, reply: Reply) -> None:
        if stopped == ["playing"]:
            stopped.append("closing")
            os.kill(os.getpid(), number)
            await asyncio.sleep(600)
        await reply.json({})

    stopped: list[str] = []
    with scripted(Protocol(prompt=prompt, delete=delete)) as server:
        words = ("--url", server.url, "--model_name_or_path", tiny_model, "--output_dir", run, *SMALL)
        said = ors_train("train", *words, "--eval_split", "test")
    assert stopped == ["playing", "closing"]
    assert said.status == 128 + number
    assert f"{number.name}: the run is ending already" in said.err
    told = record(run)
    assert (told["status"], told["message"]) == ("interrupted", f"stopped at once by {number.name}")
    assert told["finished"] and (run / "report.html").is_file() and (run / "README.md").is_file()
    assert said.err.endswith(f"interrupted: stopped at once by {number.name}\n")


def test_a_signal_before_the_run_has_begun_leaves_nothing(ors_train: Command, tiny_model: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    with meanwhile(lambda: (until(run.exists, 90), os.kill(os.getpid(), signal.SIGTERM))[0]):
        url = f"http://127.0.0.1:{free_port()}"
        said = ors_train("train", "--url", url, "--model_name_or_path", tiny_model, "--output_dir", run, "--wait", 60)
    assert said.status == 143
    assert said.err == "interrupted: stopped at once by SIGTERM\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("told", [True, False], ids=["signal", "timeout"])
def test_an_environment_that_hangs_holds_up_neither_a_signal_nor_the_end_of_the_wait(told: bool) -> None:
    async def create_session(request: Request, reply: Reply) -> None:
        if server.count("/create_session") == 1:
            await reply.json({"detail": "closed today"}, 403)
        else:
            hanging.set()
            await asyncio.sleep(600)

    def interrupt() -> None:
        assert hanging.wait(60)
        if told:
            os.kill(os.getpid(), signal.SIGTERM)

    hanging = threading.Event()
    with scripted(Protocol(create_session=create_session)) as server:
        endpoint = Endpoint(server.url, open_timeout=120)
        with pytest.raises(EnvironmentFailure):
            loop.open_session(endpoint, "train", 0).result(60)
        said: list[str] = []
        with Stopper(600 if told else 2, said.append) as stopper, meanwhile(interrupt):
            control = TrainerControl()
            stopper.on_train_begin(None, None, control)
            start = time.monotonic()
            stopper.on_step_end(None, None, control)
            assert time.monotonic() - start < 15
        assert control.should_save and control.should_training_stop
        assert (stopper.signal, stopper.outage is None) == ((signal.SIGTERM, True) if told else (None, False))
        assert "waiting for it" in said[0]


def test_sessions_that_cannot_be_opened_are_told_of_once_until_they_can() -> None:
    told = threading.Event()

    async def create_session(request: Request, reply: Reply) -> None:
        if told.is_set():
            await reply.stream(("task_id", f"sid-{next(numbers)}"), ("end", ""))
        else:
            await reply.json({"detail": "no room today"}, 503)

    def say(line: str) -> None:
        said.append(line)
        told.set()

    said: list[str] = []
    numbers = itertools.count()
    with scripted(Protocol(create_session=create_session)) as server, Stopper(600, say):
        endpoint = Endpoint(server.url, open_timeout=60)
        for future in [loop.open_session(endpoint, "train", 0) for _ in range(3)]:
            future.result(60)
    assert len(said) == 2
    assert "503" in said[0] and "no room today" in said[0] and server.url in said[0]
    assert said[0].startswith("no session can be opened: ") and said[0].endswith("; trying again")
    assert said[1].startswith("sessions can be opened again, after: ")


class Outage:
    """A gym on a port of its own that can go away and come back."""

    def __init__(self, stack: ExitStack, diary: Path) -> None:
        self._stack = stack
        self._env: Mapping[str, str] = {"DIARY": str(diary)}
        self._port = free_port()
        self.url = ""

    def up(self) -> None:
        server = ExitStack()
        self.url = server.enter_context(serve_script(GYM, self._env, self._port))
        self.down = server.close
        self._stack.callback(server.close)


def outage_file(path: Path, url: str, tiny_model: Path, run: Path) -> Path:
    entry = {"url": url, "env_name": "gym", "open_timeout": 1.0}
    return written(path, model_name_or_path=str(tiny_model), output_dir=str(run), environments=[entry])


@pytest.mark.slow
def test_an_environment_that_stays_away_stops_the_run_with_a_checkpoint(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        gym = Outage(stack, diary)
        gym.up()

        def pull_the_plug() -> None:
            until(after_steps(run, 2), 90)
            gym.down()

        file = outage_file(tmp_path / "run.yaml", gym.url, tiny_model, run)
        with meanwhile(pull_the_plug):
            said = ors_train("train", "--config", file, *SMALL, "--max_steps", 2000, "--outage_timeout", 1)
        assert said.status == 1
        told = record(run)
        assert told["status"] == "failed"
        assert f"gym at {gym.url} has been away since 20" in told["message"]
        assert "the last it said: " in told["message"]
        assert said.err.rstrip().endswith(f"failed: {told['message']}")
        assert (run / f"checkpoint-{told['step']}" / "trainer_state.json").is_file()
        assert not (run / "error.txt").exists()
        lost = [row for row in rows(run / "rollouts.jsonl") if row["ending"] == "open_failed"]
        assert lost and all(row["reward"] is None and row["error"] for row in lost)


@pytest.mark.slow
def test_a_run_goes_on_when_its_environment_comes_back(
    tiny_model: Path, run: Path, diary: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    with ExitStack() as stack:
        gym = Outage(stack, diary)
        gym.up()
        file = outage_file(tmp_path / "run.yaml", gym.url, tiny_model, run)
        words = ("train", "--config", file, *SMALL, "--max_steps", 2000, "--outage_timeout", 120)
        stderr = stack.enter_context(said.open("w"))
        process = stack.enter_context(started(words, stdout=subprocess.DEVNULL, stderr=stderr))
        stack.callback(process.kill)
        until(after_steps(run, 2), 90)
        gym.down()
        until(lambda: "waiting for it" in said.read_text(), 90)
        gym.up()
        until(lambda: "all environments are back" in said.read_text(), 90)
        until(lambda: rows(run / "rollouts.jsonl")[-1]["ending"] != "open_failed", 90)
        process.terminate()
        assert process.wait(60) == 143, said.read_text()
        assert f"gym at {gym.url} has been away since" in said.read_text()
        lost = {row["step"] for row in rows(run / "rollouts.jsonl") if row["ending"] == "open_failed"}
        assert lost and max(lost) < record(run)["step"]
        assert steps(run) == list(range(1, record(run)["step"] + 1))
