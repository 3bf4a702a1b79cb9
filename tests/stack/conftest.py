"""The engine, the images and a running stack. Images are built once a session; every stack has a project of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.servers import ROOT
from tests.stack.stack import Stack

# Ports are free ones, so that a stack which somebody has up is in nobody's way; images are not those of `make up`.
VARIABLES = {"STACK_TAG": "test", "ECHO_PORT": "0", "SQL_PORT": "0", "COMPOSE_PROFILES": "cpu"}
if "WHEELS" not in os.environ and Path(os.environ.get("PIP_FIND_LINKS", "")).is_absolute():
    VARIABLES["WHEELS"] = os.environ["PIP_FIND_LINKS"]  # pip's own folder of wheels, where this machine has one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.docker)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(1500))


@pytest.fixture(scope="session", autouse=True)
def ends_in_order() -> Iterator[None]:
    """A test run that is told to stop removes its containers, as after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    try:
        client = docker.from_env()
    except docker.errors.DockerException as error:
        if os.environ.get("REQUIRE_DOCKER") == "1":
            pytest.fail(f"REQUIRE_DOCKER=1 and no Docker engine answers: {error}", pytrace=False)
        pytest.skip("no Docker engine answers; where one runs: make test PYTEST='-m docker'")
    yield client
    client.close()


@pytest.fixture(scope="session")
def environment_images(engine: docker.DockerClient) -> None:
    Stack(ROOT, variables=VARIABLES).build_images("echo", "sql")


@pytest.fixture(scope="session")
def images(environment_images: None) -> None:
    """The trainer's image too: about a minute and a half from nothing."""
    Stack(ROOT, variables=VARIABLES).build_images("trainer")


@pytest.fixture(scope="module")
def environments(environment_images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All that the trainer depends on, without a trainer."""
    variables = {**VARIABLES, "RUNS": str(tmp_path_factory.mktemp("stack") / "runs")}
    with Stack(ROOT, services=["echo", "sql", "runs"], variables=variables) as stack:
        yield stack
