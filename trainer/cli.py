"""`ors-train`: train, eval, inspect, demo, report."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import cast

from trainer import output
from trainer.flags import USAGE
from trainer.report_text import readable

VERBS = {
    "demo": ("trainer.demo", "watch a small model learn, with nothing but this machine"),
    "train": ("trainer.train_command", "train a model on environments, as a YAML file and flags say"),
    "eval": ("trainer.eval_command", "how well a model does on a split"),
    "inspect": ("trainer.inspect", "what an environment offers, as a model would see it"),
    "report": ("trainer.report_command", "make the report of a run anew"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; the exit status. What goes wrong is said in one line, with a traceback only for `--debug`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    output.prepare()
    try:
        try:
            return _run(verb, rest)
        finally:
            sys.stdout.flush()
    except output.OutputError as error:
        output.abandon()
        if str(error):
            program = f"ors-train {verb}" if verb in VERBS else "ors-train"
            print(f"{program}: {error}", file=sys.stderr)
        return 1


def _run(verb: str, rest: Sequence[str]) -> int:
    if verb in ("-h", "--help"):
        print("usage: ors-train VERB ...  (ors-train VERB --help says more)\n")
        print("\n".join(f"  {name:<9} {what}" for name, (_, what) in VERBS.items()))
        print("\nexample: ors-train demo")
        return 0
    if verb not in VERBS:
        print(f"ors-train: no verb {verb!r}; there are: {', '.join(VERBS)}", file=sys.stderr)
        return USAGE
    debug = "--debug" in rest
    os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
    if not debug:
        warnings.simplefilter("ignore", FutureWarning)  # of libraries to their programmers
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        with _sigterm_unwinds():
            return cast(Callable[[Sequence[str]], int], import_module(VERBS[verb][0]).main)(rest)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:
        if debug or isinstance(error, output.OutputError):
            raise
        print(f"ors-train {verb}: {_said(error)}", file=sys.stderr)
        return 1


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """SIGTERM's default ends the process on the spot, with the demo's server left running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)


def _said(error: Exception) -> str:
    """The error in a line: its own words where it is one of ours, else its type too and where to see more."""
    said = " ".join(readable(str(error)).split())
    notes = list(getattr(error, "__notes__", ()))
    if not type(error).__module__.startswith("trainer."):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        notes = notes or ["--debug shows where"]
    return "; ".join([said, *notes])


if __name__ == "__main__":
    sys.exit(main())
