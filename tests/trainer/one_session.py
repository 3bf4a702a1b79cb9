"""One session at a time, and what goes wrong with it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from trainer.ors import loop
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure
from trainer.ors.sessions import Session


def open_one(endpoint: Endpoint, index: int = 0, split: str = "train") -> Session:
    return loop.open_session(endpoint, split, index).result(60)


def call_one(endpoint: Endpoint, session: Session, tool: str, **arguments: Any) -> Any:
    return loop.call_tools(endpoint, session, [(tool, arguments)]).result(60)[0][0]


def hold_the_gil(seconds: float) -> None:
    """What a long generation does at its worst: no other thread of the process runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def failure_of(ask: Callable[[], Any]) -> EnvironmentFailure:
    with pytest.raises(EnvironmentFailure) as caught:
        ask()
    return caught.value
