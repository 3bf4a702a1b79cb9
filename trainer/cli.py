"""`ors-train`: train, eval, inspect, demo, report."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

VERBS = {
    "demo": ("trainer.demo", "watch a small model learn, with nothing but this machine"),
    "train": ("trainer.train_command", "train a model on environments, as a YAML file and flags say"),
    "eval": ("trainer.eval_command", "how well a model does on a split"),
    "inspect": ("trainer.inspect", "what an environment offers, as a model would see it"),
    "report": ("trainer.report_command", "make the report of a run anew"),
}
USAGE = 2  # exit status for a command line that makes no sense


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; the exit status. What goes wrong is said in one line, with a traceback only for `--debug`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("-h", "--help"):
        print("usage: ors-train VERB …  (ors-train VERB --help says more)\n")
        print("\n".join(f"  {name:<9} {what}" for name, (_, what) in VERBS.items()))
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
        return cast(Callable[[Sequence[str]], int], import_module(VERBS[verb][0]).main)(rest)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        said = " ".join(str(error).split()) or type(error).__name__
        kind = "" if type(error).__module__.startswith("trainer.") else f"{type(error).__name__}: "
        print(f"ors-train {verb}: {kind}{said}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
