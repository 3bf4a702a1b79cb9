"""Python programs forked from a process that has the SDK imported, which costs a fresh one 3 s of processor time.

Each is a process of its own, with its own variables, working directory, signals and exit status. Only packages of
others are imported beforehand: this project's code is read anew by each.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

LONGEST = 170.0  # seconds that a program which is waited for may take
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["openreward.environments", "uvicorn"])


class Forked:
    """A running program, with what `subprocess.Popen` has for tests of servers.

    Args:
        words: what would stand after `python`: a file or `-m` and a module, then its arguments.
        env: all of its variables. Those that Python or the SDK read as they start are the test process's.
        log: file that its output is appended to.
        errors: file that its standard error is appended to, where it is another.
        cwd: its working directory.
    """

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], log: Path, errors: Path | None = None, cwd: Path
    ) -> None:
        # One server a test process, started by the first who asks: its variables must not be the asking test's.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENREWARD_")}
        with mock.patch.dict(os.environ, kept, clear=True):
            forkserver.ensure_running()
        self._process = _CONTEXT.Process(
            target=_run, args=(list(words), dict(env), log, errors or log, cwd), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (status := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(words: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does with `capture_output`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = Forked(words, env=env, log=out, errors=err, cwd=cwd)
        try:
            status = process.wait(LONGEST)
        finally:
            process.kill()
        return subprocess.CompletedProcess([*words], status, out.read_text(), err.read_text())


def _run(words: list[str], env: dict[str, str], log: Path, errors: Path, cwd: Path) -> None:
    os.setsid()  # Ctrl-C in the terminal is the tests' to hear, which then end their servers
    with log.open("ab") as output, errors.open("ab") as complaints:
        os.dup2(output.fileno(), 1)
        os.dup2(complaints.fileno(), 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    module = words[0] == "-m"
    sys.argv = words[1:] if module else words
    first = os.getcwd() if module else str(Path(words[0]).resolve().parent)
    sys.path[:] = dict.fromkeys([first, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *sys.path])
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # a forked process ends without
