"""The demo over several seeds: held-out success before and after, times, peak memory.

    python -m benchmarks.demo_seeds [--seeds 0 1 2 3 4] [--steps 50] [--json FILE]

Each seed is a whole `ors-train demo` in a process of its own: its own starter model, its own order of tasks. Success is
on the echo environment's 64 test targets, which neither the warm start nor GRPO ever showed to the model.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COLUMNS = ("seed", "before", "before_greedy", "after", "after_low", "after_high", "after_greedy", "scored")
TIMES = ("starter_s", "training_s", "total_s", "peak_mb")


def play(seed: int, steps: int, folder: Path) -> dict[str, Any]:
    """One demo; a row of the table."""
    run = folder / f"seed-{seed}"
    command = [sys.executable, "-m", "trainer.cli", "demo", "--seed", str(seed), "--steps", str(steps)]
    start = time.monotonic()
    process = subprocess.Popen([*command, "--output_dir", str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode(errors="replace") if process.stderr else ""
    if process.wait() != 0:
        raise SystemExit(f"seed {seed} failed: {said.strip().splitlines()[-1] if said.strip() else 'it said nothing'}")
    total = time.monotonic() - start
    scores = json.loads((run / "eval.json").read_text())
    facts = json.loads((run / "run.json").read_text())
    before, after = scores["before"], scores["after"]
    return {
        "seed": seed,
        "before": before["sampled"]["success"],
        "before_greedy": before["greedy"]["success"],
        "after": after["sampled"]["success"],
        "after_low": after["sampled"]["low"],
        "after_high": after["sampled"]["high"],
        "after_greedy": after["greedy"]["success"],
        "scored": after["sampled"]["scored"],
        "starter_s": _last_seconds(said),
        "training_s": facts["seconds"]["training"],
        "total_s": total,
        "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,  # of the largest child so far
    }


def _last_seconds(said: str) -> float:
    """How long the warm start took, from its last line of progress; 0 where the model came from the cache."""
    lines = [line for line in said.splitlines() if line.startswith("warm start")]
    return float(lines[-1].rstrip(" s").rpartition(", ")[2]) if lines else 0.0


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people."""
    lines = ["| " + " | ".join((*COLUMNS, *TIMES)) + " |", "|" + " --- |" * (len(COLUMNS) + len(TIMES))]
    for row in rows:
        rates = [str(row["seed"]), *("-" if row[name] is None else f"{row[name]:.3f}" for name in COLUMNS[1:])]
        lines.append("| " + " | ".join([*rates, *(f"{row[name]:.0f}" for name in TIMES)]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Play every seed and print the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    flags.add_argument("--steps", type=int, default=50)
    flags.add_argument("--quick", action="store_true", help="seed 0 alone, 12 steps")
    flags.add_argument("--json", type=Path, metavar="FILE")
    asked = flags.parse_args()
    seeds, steps = ([0], 12) if asked.quick else (asked.seeds, asked.steps)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for seed in seeds:
            rows.append(play(seed, steps, Path(folder)))
            print(f"seed {seed}: {rows[-1]['before']:.3f} to {rows[-1]['after']:.3f}", file=sys.stderr, flush=True)
    print(table(rows))
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
