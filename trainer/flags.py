"""Command lines that answer a mistake in one line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

USAGE = 2  # exit status for a command line that makes no sense


class Flags(argparse.ArgumentParser):
    """argparse as the verbs of `ors-train` use it: a mistake takes one line, no flag is guessed, all have `--debug`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.add_argument("--debug", action="store_true", help="show a traceback when something goes wrong")

    def error(self, message: str) -> NoReturn:
        """End the program with status 2 and one line on standard error."""
        self.exit(USAGE, f"{self.prog}: {message}; {self.prog} --help says more\n")
