"""The environments' image: confined from the inside, reachable from both sides, and at work without Compose too."""

from __future__ import annotations

import json
import time
import urllib.request

import docker
import pytest
from docker.models.containers import Container

from tests.servers import ROOT
from tests.stack.conftest import VARIABLES
from tests.stack.stack import Stack

IMAGE = "ors-env-echo:test"

CONFINEMENT = """
import json, os
def writable(folder):
    path = os.path.join(folder, "written")
    try:
        open(path, "w").close()
    except OSError:
        return False
    os.remove(path)
    return True
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "user": os.getuid(), "group": os.getgid(),
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "writable": [folder for folder in ("/", "/app", "/opt/venv", "/home/user", "/var/tmp", "/etc", "/app/runs", "/home/user/.cache", "/tmp") if writable(folder)],
}))
"""


def health(base: str) -> object:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{base}/health", timeout=10) as answer:
        return json.load(answer)


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
    said, _, _ = environments.exec_in_container(["python", "-c", CONFINEMENT], service)
    assert json.loads(said) == {
        "user": 1000,
        "group": 1000,
        "capabilities": ["0000000000000000"] * 5,
        "no_new_privileges": "1",
        "writable": ["/tmp"],
    }


def test_the_image_holds_no_trainer_and_no_torch(environments: Stack) -> None:
    code = "import importlib.util as u; print([m for m in ('torch', 'transformers', 'trl', 'datasets', 'trainer') if u.find_spec(m)])"
    said, _, _ = environments.exec_in_container(["python", "-c", code], "echo")
    assert said.strip() == "[]"
