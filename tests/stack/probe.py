"""Small questions that tests of containers ask again and again."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable

import docker

# No proxy: a proxy variable of the machine would swallow 127.0.0.1.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def health(base: str) -> object:
    """Return what a server answers to GET /health."""
    with _OPENER.open(f"{base}/health", timeout=10) as answer:
        return json.load(answer)


def healthy(base: str) -> bool:
    """Return whether a server answers at all and says that it is well."""
    try:
        return health(base) == {"status": "ok"}
    except OSError:
        return False


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Return when the condition holds.

    Raises:
        TimeoutError: it did not in so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {seconds:.0f} s: {what}")
        time.sleep(0.2)


def left(engine: docker.DockerClient, project: str) -> list[str]:
    """Return the names of all containers, networks and volumes of a Compose project."""
    mine = {"label": f"com.docker.compose.project={project}"}
    found = [*engine.containers.list(all=True, filters=mine), *engine.networks.list(filters=mine)]
    return [thing.name for thing in (*found, *engine.volumes.list(filters=mine))]
