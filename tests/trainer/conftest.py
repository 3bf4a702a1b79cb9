"""Shared by the tests of the trainer's side: servers, what they tell, and an end to all sessions after each test."""

from __future__ import annotations

import fcntl
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import serve_script
from tests.trainer.commands import GYM, Command, command, save_tiny_model
from tests.trainer.lessons import ECHO, ECHO_TARGETS

ENVIRONMENTS = Path(__file__).parent / "environments"
WORKSHOP = ENVIRONMENTS / "workshop.py"
PAIR = ENVIRONMENTS / "pair.py"


def record(url: str, forget: bool = False) -> dict[str, Any]:
    """What a test environment's server tells about itself, since it was last made to forget it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/record", data=b"" if forget else None, timeout=10) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; fails the test when it does not come about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def workshop_server() -> Iterator[str]:
    with serve_script(WORKSHOP) as url:
        yield url


@pytest.fixture
def workshop(workshop_server: str) -> str:
    """The URL of the one server of `environments/workshop.py`; each test finds no session and a clean record."""
    until(lambda: record(workshop_server)["open"] == 0)
    record(workshop_server, forget=True)
    return workshop_server


@pytest.fixture(scope="session")
def pair() -> Iterator[str]:
    with serve_script(PAIR) as url:
        yield url


@pytest.fixture(scope="module")
def diary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What happens on the server of `gym`."""
    return tmp_path_factory.mktemp("gym") / "diary.jsonl"


@pytest.fixture(scope="module")
def gym(diary: Path) -> Iterator[str]:
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        yield url


@pytest.fixture
def ors_train(capsys: pytest.CaptureFixture[str]) -> Command:
    return command(capsys)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)  # two are slower than one for a model this small
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def echo_starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, alone in a cache: its warm start takes a minute, so one test process makes it for all."""
    import torch

    from trainer.starter import starter

    torch.set_num_threads(1)  # two are slower than one for a model this small
    own = tmp_path_factory.getbasetemp()
    cache = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "starter"
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return starter(ECHO, avoid=ECHO_TARGETS, cache=cache)


@pytest.fixture
def starter_cache(echo_starter: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has the demo's model."""
    monkeypatch.setenv("ORS_CACHE", str(echo_starter.parent))
    return echo_starter.parent


@pytest.fixture(autouse=True)
def no_session_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENREWARD_API_KEY", "OPENREWARD_API_URL", "OPENREWARD_SESSION_URL", "OPENREWARD_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
    yield
    from trainer.ors.loop import close_all

    close_all()
