"""A Space as Hugging Face runs one: built from its folder alone, without arguments; user 1000, its port, no volume."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from envs import space
from envs.check.runner import run_check
from tests.servers import ROOT, variables
from tests.stack.probe import healthy, until

IMAGE = "ors-space-echo:test"
KEY = "space-key-71aa"


@pytest.fixture(scope="module")
def built(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("space")
    space.lay_out("echo", folder)
    done = subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def container(engine: docker.DockerClient, built: None) -> Iterator[docker.models.containers.Container]:
    running = engine.containers.run(
        IMAGE,
        detach=True,
        read_only=True,
        tmpfs={"/tmp": "size=16m"},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        environment={"ENV_API_KEY": KEY},
        ports={f"{space.APP_PORT}/tcp": ("127.0.0.1", None)},
    )
    yield running
    running.remove(force=True, v=True)


@pytest.fixture(scope="module")
def url(container: docker.models.containers.Container) -> str:
    container.reload()
    base = f"http://127.0.0.1:{container.ports[f'{space.APP_PORT}/tcp'][0]['HostPort']}"
    until(lambda: healthy(base), "the Space healthy")
    return base


def test_it_runs_as_user_1000_and_has_no_volume(container: docker.models.containers.Container, url: str) -> None:
    assert container.exec_run("id -u").output == b"1000\n"
    assert container.attrs["Mounts"] == []
    assert container.exec_run("touch /app/x").exit_code != 0


def test_it_holds_its_environment_and_no_verb_of_an_author(
    container: docker.models.containers.Container, url: str
) -> None:
    found = container.exec_run(["sh", "-c", "ls /app /app/envs"]).output.decode().split()
    assert {"echo", "server", "catalog.py"} <= set(found)
    assert not {"check", "push.py", "new.py", "templates", "trainer", "tests"} & set(found)


def test_it_keeps_the_standard_behind_its_key(url: str) -> None:
    report = asyncio.run(run_check(url, api_key=KEY))
    assert (report.ok, report.failures()) == (True, []), report.as_text()
    assert "ORS-060" in {result.rule.id for result in report.results if result.status == "passed"}


def test_a_training_runs_against_its_one_url(url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        json.dumps({"environments": [{"url": url, "env_name": "echo", "api_key": "${ENV_API_KEY}", "num_tasks": 4}]})
    )
    command = [sys.executable, "-m", "trainer.cli", "train", "--config", str(config), "--model_name_or_path", "starter"]
    command += ["--per_device_train_batch_size", "8", "--max_steps", "1", "--output_dir", str(tmp_path / "run")]
    env = variables(0, {"ENV_API_KEY": KEY})
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rollouts = [json.loads(line) for line in (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()]
    trained = [rollout for rollout in rollouts if rollout["mode"] == "train"]
    assert len(trained) == 8
    assert any(call["reward"] is not None for rollout in trained for call in rollout["calls"])
    assert KEY not in (tmp_path / "run" / "rollouts.jsonl").read_text()
