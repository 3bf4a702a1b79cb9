"""Standard output of the programs: every text can be shown, and that nothing can be written is an error of its own."""

from __future__ import annotations

import errno
import io
import os
import sys


class OutputError(Exception):
    """Standard output cannot be written; the message is one line for a person, "" where its reader has had enough."""


class _Stdout(io.TextIOWrapper):
    # Not an OSError: argparse swallows those, and one from here would look like a file's or a server's.
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(_said(error)) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(_said(error)) from error


def prepare() -> None:
    """Have what cannot be encoded spelled, and `OutputError` raised for what cannot be written, be it closed or full.

    A standard output that somebody has put in its place, as tests do, is left as it is.
    """
    given = sys.__stdout__
    if sys.stdout is not given:
        return
    if given is None:  # closed before the program began: Python would print nothing and call that done
        unwritable = io.FileIO(os.open(os.devnull, os.O_RDONLY), "w")
        sys.stdout = _Stdout(io.BufferedWriter(unwritable), encoding="utf-8", errors="backslashreplace")
        return
    sys.stdout = _Stdout(
        given.buffer,
        encoding=given.encoding,
        errors="backslashreplace",
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )


def abandon() -> None:
    """Send what is still to be written nowhere: Python tries again when it ends, and complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _said(error: OSError) -> str:
    if isinstance(error, BrokenPipeError):
        return ""
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    return f"standard output cannot be written: {reason}"
