"""Runs a module as a program that ends with the process that started it, even where that one is killed outright.

`python -m trainer.leash MODULE ARGUMENT…`: standard input is a pipe that the other process holds open and never writes
to. The operating system closes it when that process is gone, on every system and however it went.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _end_with_the_other() -> None:
    os.read(0, 1)  # of sys.stdin, the interpreter's end would wait for this thread
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
