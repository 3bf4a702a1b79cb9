"""All measurements of docs/performance.md, one after the other, each in a process of its own.

python -m benchmarks [--quick]
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

MODULES = ("rollouts", "dataset", "sessions", "server")


def main(arguments: Sequence[str]) -> int:
    for module in MODULES:
        print(f"\nbenchmarks.{module}", flush=True)
        status = subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments]).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
