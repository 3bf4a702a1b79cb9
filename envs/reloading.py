"""`ors-env serve --reload`: the server in a process of its own, started again whenever a file of it changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from watchfiles import watch

from envs import catalog, serving

_STOP_SECONDS = 8.0  # running calls and teardowns have had theirs by then, by the server's defaults
_POLL_MILLISECONDS = 200


def serve(names: Sequence[str], host: str, port: int, *, debug: bool = False) -> None:
    """Serve environments until SIGTERM or Ctrl-C; a server that cannot start is tried again at the next change.

    Watched are the environments' folders and `envs/server`, without caches and what editors leave behind.

    Args:
        names: environments of the catalog; the first answers requests that name none.
        port: 0 takes a free one, and the same one at every start.
        debug: have the server show the traceback of its error.

    Raises:
        envs.serving.ServingError: the address is taken or cannot be listened on.
        envs.catalog.CatalogError: there is no such environment.
    """
    folders = [*(catalog.folder(name) for name in names), catalog.ROOT / "server"]
    with serving.listen(host, port) as probe:
        port = probe.getsockname()[1]
    # Not on the path by `-m`: the folder of the shell may hold another `envs`.
    command = [sys.executable, "-P", "-m", "envs.cli", "serve", *names, "--host", host, "--port", str(port)]
    _watch(folders, [*command, "--debug"] if debug else command)


def _watch(folders: Sequence[Path], command: Sequence[str]) -> None:
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server, waiting = _start(command), False
    try:
        for changes in watch(*folders, stop_event=stopped, rust_timeout=_POLL_MILLISECONDS, yield_on_timeout=True):
            if changes:
                print(f"{_told(path for _, path in changes)} changed, starting again", flush=True)
                _end(server)
                server, waiting = _start(command), False
            elif not waiting and server.poll() is not None:
                print("the server has ended; it starts again when a file changes (Ctrl-C stops)", flush=True)
                waiting = True
    finally:
        _end(server)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(catalog.ROOT.parent), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


def _end(server: subprocess.Popen[bytes]) -> None:
    # SIGTERM also after a Ctrl-C, which the server has had from the terminal: a second one would cut it off.
    server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _told(paths: Iterable[str]) -> str:
    first, *more = sorted(os.path.relpath(path) for path in paths)
    return f"{first} and {len(more)} more" if more else first
