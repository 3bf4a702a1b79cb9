"""`ors-train report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainer.flags import Flags


def main(arguments: Sequence[str]) -> int:
    """Write report.html into a run folder and print its path."""
    flags = Flags(
        prog="ors-train report", description="Makes report.html anew.", epilog="example: ors-train report runs/demo"
    )
    flags.add_argument("run", type=Path, help="the run folder")
    run = flags.parse_args(arguments).run
    from trainer.report import write_report

    print(write_report(run))
    return 0
