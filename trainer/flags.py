"""Command lines that answer a mistake in one line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

USAGE = 2  # exit status for a command line that makes no sense


class Flags(argparse.ArgumentParser):
    """argparse as the verbs of `ors-train` use it: a mistake takes one line, no flag is guessed, all have `--debug`,
    and `--env-name` is `--env_name`, as among TRL's flags.

    Args:
        elsewhere: What is no flag here, and what it is instead.
        settings: argparse's own.
    """

    def __init__(self, elsewhere: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._elsewhere = elsewhere or {}
        self.add_argument("--debug", action="store_true", help="show a traceback when something goes wrong")

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]
        """The flags' values, as of argparse."""
        words = [self._spelled(word) for word in args]
        for word in words:
            name = word.partition("=")[0].replace("-", "_").removeprefix("__")
            if word.startswith("--") and name in self._elsewhere and f"--{name}" not in self._option_string_actions:
                self.error(f"{name} is {self._elsewhere[name]}")
        return super().parse_args(words, namespace)

    def _spelled(self, word: str) -> str:
        name, given, value = word.partition("=")
        flag = "--" + name.removeprefix("--").replace("-", "_")
        return flag + given + value if name.startswith("--") and flag in self._option_string_actions else word

    def error(self, message: str) -> NoReturn:
        """End the program with status 2 and one line on standard error."""
        self.exit(USAGE, f"{self.prog}: {message}; {self.prog} --help says more\n")
