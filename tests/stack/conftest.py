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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.docker)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(900))


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


@pytest.fixture(scope="module")
def environments(environment_images: None) -> Iterator[Stack]:
    """The environments' services without a trainer."""
    with Stack(ROOT, services=["echo", "sql"], variables=VARIABLES) as stack:
        yield stack
