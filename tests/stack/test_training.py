"""The whole stack: a trainer that learns from both environments, is killed, goes on, and says how it ended."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from tests.stack.conftest import VARIABLES
from tests.stack.probe import left, until
from tests.stack.runs import BOTH, SHORT, TRAINING_SECONDS, facts, lines, train, training
from tests.stack.stack import Stack

STEPS = 80  # of a run that is killed after its first checkpoint: enough not to be at its end by then


@dataclass(frozen=True)
class Finished:
    """A run that came to its end: where it is, how it ended, and what was left when its stack was taken down."""

    home: Path
    status: int
    said: str
    left: list[str]


@pytest.fixture(scope="module")
def first(images: None, engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run from nothing: the model is built, which takes a minute or more, and trained on both environments."""
    home = tmp_path_factory.mktemp("first")
    with training(home, VARIABLES, **BOTH) as stack:
        status, said = train(stack)
    return Finished(home, status, said, left(engine, stack.project))


@pytest.fixture
def home(first: Finished, tmp_path: Path) -> Path:
    """A place for a run that starts from the first one's model, which takes no time."""
    shutil.copytree(first.home / "runs" / "stack" / "model", tmp_path / "stack" / "model")
    return tmp_path


def container(engine: docker.DockerClient, stack: Stack, service: str) -> Container:
    labels = [f"com.docker.compose.project={stack.project}", f"com.docker.compose.service={service}"]
    found: Container = engine.containers.list(all=True, filters={"label": labels})[0]
    return found


def pid(of: Container) -> int:
    of.reload()
    found: int = of.attrs["State"]["Pid"]
    return found


def kill(victim: Container) -> None:
    """End a container's first process as the kernel does when memory runs out; its restart policy holds."""
    until(lambda: pid(victim) > 0, f"{victim.name} to run", 60)
    first_process = pid(victim)
    assert first_process > 0  # 0 is that of a container that has ended, and to kill it would kill this process's group
    try:
        os.kill(first_process, signal.SIGKILL)
    except PermissionError:  # not root here: Docker's own kill is final, so what Compose would do is done by hand
        victim.kill()
        victim.start()


def checkpoint(home: Path) -> bool:
    return any((home / "runs" / "stack").glob("checkpoint-*/trainer_state.json"))


def test_a_run_on_both_environments_ends_well_and_its_folder_says_so(first: Finished) -> None:
    assert first.status == 0, first.said
    run = facts(first.home)
    assert (run["status"], run["step"], run["resumed_from"]) == ("finished", 2, None)
    urls = {environment["name"]: environment["url"] for environment in run["environments"]}
    assert urls == {"echo": "http://echo:8000", "sql": "http://sql:8000"}
    played = [line["environment"] for line in lines(first.home, "rollouts.jsonl")]
    assert sorted(played) == ["echo"] * 4 + ["sql"] * 4
    assert [line["step"] for line in lines(first.home, "metrics.jsonl")] == [1, 2]
    assert "report: runs/stack/report.html" in first.said and (first.home / "runs/stack/report.html").is_file()


def test_a_stack_that_was_taken_down_leaves_no_container_network_or_volume(first: Finished) -> None:
    assert first.left == []


def test_an_environment_that_does_not_answer_ends_the_run_with_its_url(home: Path) -> None:
    with training(
        home, {**VARIABLES, "ECHO_URL": "http://echo:9"}, model_name_or_path="stack/model", max_steps=1, wait=3
    ) as stack:
        status, said = train(stack)
    assert status == 1, said
    assert "http://echo:9" in said and "waited 3 s" in said


def test_a_killed_trainer_goes_on_from_its_checkpoint_at_the_next_up(home: Path, engine: docker.DockerClient) -> None:
    with training(home, VARIABLES, model_name_or_path="stack/model", max_steps=STEPS) as stack:
        stack.compose("up", "--detach", seconds=180)
        until(lambda: checkpoint(home), "a checkpoint", TRAINING_SECONDS)
        container(engine, stack, "trainer").kill()
        status, said = train(stack)
    assert status == 0, said
    assert_went_on(home, STEPS)
    assert f"going on from step {facts(home)['resumed_from']} " in said


def test_a_trainer_that_dies_is_restarted_and_goes_on_from_its_checkpoint(
    home: Path, engine: docker.DockerClient
) -> None:
    with training(
        home, {**VARIABLES, "TRAINER_RESTART": "on-failure:2"}, model_name_or_path="stack/model", max_steps=STEPS
    ) as stack:
        stack.compose("up", "--detach", seconds=180)
        until(lambda: checkpoint(home), "a checkpoint", TRAINING_SECONDS)
        kill(container(engine, stack, "trainer"))
        until(lambda: facts(home)["status"] == "finished", "the end of the run", TRAINING_SECONDS)
    assert_went_on(home, STEPS)


def assert_went_on(home: Path, steps: int) -> None:
    run = facts(home)
    assert (run["status"], run["step"]) == ("finished", steps)
    assert run["resumed_from"] >= SHORT["save_steps"]
    assert [line["step"] for line in lines(home, "metrics.jsonl")] == list(range(1, steps + 1))


def test_an_environment_that_dies_and_is_restarted_costs_its_rollouts_and_not_the_run(
    home: Path, engine: docker.DockerClient
) -> None:
    def lost() -> list[dict[str, Any]]:
        return [line for line in lines(home, "rollouts.jsonl") if line["ending"] == "environment_error"]

    with training(home, VARIABLES, model_name_or_path="stack/model", max_steps=40) as stack:
        stack.compose("up", "--detach", seconds=180)
        trainer, echo = container(engine, stack, "trainer"), container(engine, stack, "echo")
        until(lambda: bool(lines(home, "metrics.jsonl")), "the first step", TRAINING_SECONDS)
        while not lost():  # between two calls of an episode, the server may be killed without a loss
            step = len(lines(home, "metrics.jsonl"))
            assert step < 30, "no rollout was lost"
            kill(echo)
            until(lambda step=step: len(lines(home, "metrics.jsonl")) > step, "a step after the restart", 120)
        assert trainer.wait(timeout=TRAINING_SECONDS)["StatusCode"] == 0
    assert [line["step"] for line in lines(home, "metrics.jsonl")] == list(range(1, 41))
    assert {line["reward"] for line in lost()} == {None}
