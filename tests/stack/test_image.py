"""The environments' image without Compose: what a user who types `docker run -p` gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import docker
import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

from tests.servers import ROOT
from tests.stack.probe import healthy, until
from tests.stack.stack import Stack
from trainer import OpenRewardSpec

pytestmark = pytest.mark.usefixtures("environment_images")
IMAGE = "ors-env-echo:test"


@contextmanager
def running(image: str = IMAGE, port: int = 8000, **variables: str) -> Iterator[tuple[DockerContainer, str]]:
    """Run an image as `docker run -p 127.0.0.1::PORT` does and yield it with its base URL once it answers."""
    container = DockerContainer(image).with_envs(**variables)
    container.ports[f"{port}/tcp"] = ("127.0.0.1", None)
    with container:
        url = f"http://127.0.0.1:{container.get_exposed_port(port)}"
        until(lambda: healthy(url), f"{image} healthy")
        yield container, url


def test_a_container_started_by_hand_gives_prompts_tools_and_rewards() -> None:
    with running() as (_, url):
        spec = OpenRewardSpec(url, env_name="echo", num_tasks=2)
        rows = list(spec.train_dataset)
        assert [row["task_index"] for row in rows] == [0, 1]
        rollout = spec.environment_factory()
        prompt = rollout.reset(**rows[1])
        assert rows[1]["target"] in prompt
        rollout.echo(text=rows[1]["target"])
        assert spec.reward_funcs(environments=[rollout]) == [1.0]
        assert rollout.finished
        rollout._close()


def test_the_port_is_the_containers_variable() -> None:
    with running(port=7860, PORT="7860") as (container, url):
        spec = OpenRewardSpec(url, env_name="echo", num_tasks=1)
        assert len(spec.train_dataset) == 1
        # The image's own health check asks that port too.
        HealthcheckWaitStrategy().with_startup_timeout(60).wait_until_ready(container)


def test_a_server_told_to_stop_ends_well_and_soon(engine: docker.DockerClient) -> None:
    with running() as (container, _):
        wrapped = engine.containers.get(container.get_container_id())
        wrapped.kill("SIGTERM")
        assert wrapped.wait(timeout=30)["StatusCode"] == 0


def test_a_name_that_is_no_environment_fails_the_build() -> None:
    build = Stack(ROOT, variables={"STACK_TAG": "test"})
    done = build.compose("build", "--build-arg", "ENV=ecko", "echo", seconds=300, check=False)
    assert done.returncode != 0
    assert "no environment 'ecko'; there are: " in done.stdout
