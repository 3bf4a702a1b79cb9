"""`ors-train report`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Write report.html into a run folder and print its path."""
    flags = argparse.ArgumentParser(
        prog="ors-train report", description="Makes report.html anew.", epilog="example: ors-train report runs/demo"
    )
    flags.add_argument("run", type=Path, help="the run folder")
    flags.add_argument("--debug", action="store_true", help="tracebacks")
    from trainer.report import write_report

    print(write_report(flags.parse_args(arguments).run))
    return 0
