"""Environment time of a training step: TRL's adapter and loop, ours, and what is possible, in turns in one run.

    python -m benchmarks.rollouts [--quick] [--rounds N] [--json FILE]

A cell is so many rollouts, three tool calls each, and a latency of the tool; in heavy-tailed cells one call in twenty
takes ten times as long. All play the same calls against the same server process. The ideal is the sum over turns of the
slowest call; the floor is a bare program on the SDK's asynchronous client (see benchmarks.contenders).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contenders import TRL, Bare, Contender, Ours, Seconds
from benchmarks.process import started

TURNS = 3
TRL_SECONDS = 120.0  # in one cell; a step of TRL that takes minutes is a sum of waits, and hardly varies


@dataclass(frozen=True)
class Cell:
    """What one line of the table measures."""

    rollouts: int
    latency_ms: int
    heavy_tailed: bool = False

    def seconds(self, seed: int) -> Seconds:
        """How long each call takes."""
        calls = self.rollouts * TURNS
        slow = set(random.Random(seed).sample(range(calls), max(calls // 20, 1) if self.heavy_tailed else 0))
        waits = [self.latency_ms / 1000 * (10 if call in slow else 1) for call in range(calls)]
        return [waits[at : at + TURNS] for at in range(0, calls, TURNS)]


@dataclass(frozen=True)
class Row:
    """One line of the table: medians in seconds, and how often TRL's step was measured for its."""

    rollouts: int
    turns: int
    latency_ms: int
    heavy_tailed: bool
    ours_s: float
    trl_s: float
    ideal_s: float
    floor_s: float
    ratio: float
    floor_ratio: float
    rounds: int
    trl_rounds: int


QUICK = [Cell(8, 50), Cell(32, 50)]
FULL = [
    Cell(rollouts, latency, heavy_tailed)
    for rollouts in (8, 32, 128)
    for latency, heavy_tailed in ((0, False), (50, False), (50, True), (500, False), (500, True))
]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="8 and 32 rollouts at 50 ms only: under a minute")
    parser.add_argument("--rounds", type=int, metavar="N", help="steps that each median is of (default: 5, quick: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file, too")
    arguments = parser.parse_args(argv)
    # TRL still reads transformers' old names of activation checkpointing.
    warnings.filterwarnings("ignore", message=r"`(is_)?gradient_checkpointing.*` is deprecated", category=FutureWarning)
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    rows: list[Row] = []
    print(HEADER, flush=True)
    with started("benchmarks.waiting") as server, tempfile.TemporaryDirectory() as folder:
        cells = QUICK if arguments.quick else FULL
        for rollouts in sorted({cell.rollouts for cell in cells}):
            players = [make(server.url, Path(folder), rollouts) for make in (TRL, Ours, Bare)]
            for player in players:
                player.step([[0.0] * TURNS] * rollouts)  # connections, pools of adapters
            for cell in cells:
                if cell.rollouts == rollouts:
                    rows.append(measure(cell, players, rounds))
                    print(line(rows[-1]), flush=True)
            for player in players:
                player.close()
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


def measure(cell: Cell, players: Sequence[Contender], rounds: int) -> Row:
    """Have the players take turns at the cell, the order reversed from round to round."""
    times: dict[str, list[float]] = {player.name: [] for player in players}
    for number in range(rounds):
        for player in players if number % 2 == 0 else reversed(players):
            if player.name != "trl" or sum(times["trl"]) + max(times["trl"], default=0.0) <= TRL_SECONDS:
                times[player.name].append(player.step(cell.seconds(number)))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    ideal = statistics.median(ideal_seconds(cell.seconds(number)) for number in range(rounds))
    return Row(
        rollouts=cell.rollouts,
        turns=TURNS,
        latency_ms=cell.latency_ms,
        heavy_tailed=cell.heavy_tailed,
        ours_s=medians["ours"],
        trl_s=medians["trl"],
        ideal_s=ideal,
        floor_s=medians["floor"],
        ratio=medians["trl"] / medians["ours"],
        floor_ratio=medians["ours"] / medians["floor"],
        rounds=rounds,
        trl_rounds=len(times["trl"]),
    )


def ideal_seconds(seconds: Seconds) -> float:
    """The sum over turns of the slowest call."""
    return sum(max(turn) for turn in zip(*seconds, strict=True))


COLUMNS = ("rollouts", "latency", "TRL s", "ours s", "floor s", "ideal s", "TRL/ours", "ours/floor")
WIDTHS = (8, 14, 9, 9, 9, 9, 10, 12)
HEADER = "".join(name.rjust(width) for name, width in zip(COLUMNS, WIDTHS, strict=True))


def line(row: Row) -> str:
    """One line of the table."""
    latency = f"{row.latency_ms} ms{' heavy' if row.heavy_tailed else ''}"
    seconds = (f"{value:.3f}" for value in (row.trl_s, row.ours_s, row.floor_s, row.ideal_s))
    cells = (str(row.rollouts), latency, *seconds, f"{row.ratio:.1f}", f"{row.floor_ratio:.2f}")
    return "".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True))


if __name__ == "__main__":
    sys.exit(main())
