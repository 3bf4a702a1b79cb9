"""The environments' image: confined from the inside, reachable from both sides, and at work without Compose too."""

from __future__ import annotations

import json

import pytest

from tests.stack import confinement
from tests.stack.probe import health
from tests.stack.stack import Stack

TRAINING = ("torch", "transformers", "trl", "datasets", "trainer")


@pytest.mark.parametrize("service", ["echo", "sql"])
def test_the_host_reaches_each_environment(environments: Stack, service: str) -> None:
    assert health(environments.url(service)) == {"status": "ok"}


@pytest.mark.parametrize(("here", "there"), [("echo", "sql"), ("sql", "echo")])
def test_environments_reach_each_other_by_name(environments: Stack, here: str, there: str) -> None:
    code = f"import urllib.request; print(urllib.request.urlopen('http://{there}:8000/health', timeout=10).status)"
    said, _, status = environments.exec_in_container(["python", "-c", code], here)
    assert (said.strip(), status) == ("200", 0)


@pytest.mark.parametrize("service", ["echo", "sql"])
def test_ports_are_published_on_the_loopback_address_alone(environments: Stack, service: str) -> None:
    published = environments.get_container(service).Publishers
    assert {publisher.URL for publisher in published} == {"127.0.0.1"}


@pytest.mark.parametrize("service", ["echo", "sql"])
def test_an_environment_is_an_ordinary_user_without_capabilities(environments: Stack, service: str) -> None:
    said, _, _ = environments.exec_in_container(["python", "-c", confinement.SCRIPT], service)
    assert json.loads(said) == {**confinement.CONFINED, "writable": ["/tmp"]}


def test_the_image_holds_no_trainer_and_no_torch(environments: Stack) -> None:
    code = f"import importlib.util as modules; print([name for name in {TRAINING} if modules.find_spec(name)])"
    said, _, _ = environments.exec_in_container(["python", "-c", code], "echo")
    assert said.strip() == "[]"
