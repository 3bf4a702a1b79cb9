"""Servers for measurements: each in a process of its own, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    url: str
    pid: int

    def processor_seconds(self) -> float:
        """Return the processor time of the server so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """Return the server's resident memory in MiB."""
        return resident_bytes(self.pid) / 2**20


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started(module: str, *arguments: str) -> Iterator[Running]:
    """Run `python -m module … --port P`, wait until it listens, and end it after the block.

    Raises:
        RuntimeError: the server ended or did not listen in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", module, *arguments, "--port", str(port)]
    variables = {**os.environ, "OPENREWARD_DISABLE_UPDATE_CHECK": "1"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=variables)
        try:
            _await(process, port)
            yield Running(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: status {process.poll()}")
