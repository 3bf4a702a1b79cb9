"""Real servers for tests: each in a process of its own, on a free port, stopped by its process id.

One server per process, because a second event loop in one process breaks the SDK's server-sent events.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.forked import Forked

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_SHOWN_LINES = 30


@contextmanager
def serve(*names: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve environments of the catalog with `ors-env serve` and yield the server's base URL.

    Args:
        names: environments, the first is the server's default.
        env: further variables of the server's process.
    """
    port = free_port()
    with forking(["-m", "envs.cli", "serve", *names, "--port", str(port)], port, env=env) as url:
        yield url


@contextmanager
def serve_script(path: Path, env: Mapping[str, str] | None = None, port: int | None = None) -> Iterator[str]:
    """Run a Python file that serves on 127.0.0.1 and the port of its variable PORT, and yield its base URL."""
    port = port or free_port()
    with forking([str(path)], port, env=env) as url:
        yield url


@contextmanager
def running(
    command: Sequence[str], port: int, *, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> Iterator[str]:
    """Run a server's command until the block ends; the block starts when `/health` answers.

    Raises:
        RuntimeError: the server ended or did not answer in time; the message ends with its last log lines.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=cwd, env=variables(port, env), stdout=log, stderr=subprocess.STDOUT)
        with _until_the_end(process, port, log) as url:
            yield url


@contextmanager
def forking(
    words: Sequence[str], port: int, *, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> Iterator[str]:
    """Do as `running` does with what would stand after `python`, in a process that need not import the SDK."""
    with tempfile.NamedTemporaryFile() as log:
        process = Forked(words, env=variables(port, env), log=Path(log.name), cwd=cwd)
        with _until_the_end(process, port, log) as url:
            yield url


@contextmanager
def _until_the_end(process: subprocess.Popen[bytes] | Forked, port: int, log: IO[bytes]) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    try:
        _await_health(process, url, log)
        yield url
    finally:
        stop(process)


def variables(port: int, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a server's process: this one's, without proxies and keys, and the port."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("OPENREWARD_")
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"PORT": str(port), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "OPENREWARD_DISABLE_UPDATE_CHECK": "1"}
    return {**kept, **own, **(extra or {})}


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop(process: subprocess.Popen[bytes] | Forked) -> int:
    """End a server the polite way, by force when it does not end in time, and return its exit status."""
    process.terminate()
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _await_health(process: subprocess.Popen[bytes] | Forked, url: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}:\n{_last_lines(log)}")
        if _healthy(url):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not answer {url}/health in {START_SECONDS:.0f} s:\n{_last_lines(log)}")


def _healthy(url: str) -> bool:
    # No proxy: a proxy variable of the machine would swallow 127.0.0.1.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=2) as answer:
            status: int = answer.status
            return status == 200
    except (urllib.error.URLError, OSError):
        return False


def _last_lines(log: IO[bytes]) -> str:
    # pread: the server writes at the offset that this open file shares with it.
    text = os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode(errors="replace")
    return "\n".join(text.splitlines()[-_SHOWN_LINES:]) or "(it printed nothing)"
