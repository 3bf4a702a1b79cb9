"""The report's tables: environments, errors by kind, where the time went, held-out scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer.report_run import ENVIRONMENT_ERRORS, MODEL_ERRORS, UNNAMED_ERROR, Run, Tally, number, record
from trainer.report_summary import DASH, interval, judged, percent

TIME_PARTS = {
    "time/open": "opening sessions",
    "time/calls": "tool calls",
    "time/generate": "generating",
    "time/forward": "forward",
    "time/backward": "backward",
    "time/other": "other",
}


@dataclass(frozen=True)
class Row:
    """A line of a table: its name, its cells as shown, and the colour it has in the chart, if any."""

    name: str
    cells: Sequence[str]
    colour: int | None = None


def environment_table(run: Run) -> list[Row]:
    """One row for each environment: rollouts, scored, mean reward of the scored, errors for each rollout."""
    rows = []
    for colour, name in enumerate(run.environments()):
        tallies = [tally for (_, environment), tally in run.tallies.items() if environment == name]
        rollouts, scored = sum(t.rollouts for t in tallies), sum(t.scored for t in tallies)
        errors = sum((t.errors for t in tallies), Counter[str]())
        model = sum(errors[kind] for kind in MODEL_ERRORS)
        cells = [
            f"{rollouts:,}",
            percent(scored / rollouts) if rollouts else DASH,
            f"{sum(t.reward for t in tallies) / scored:.2f}" if scored else DASH,
            _rate(model, rollouts),
            _rate(errors.total() - model, rollouts),
        ]
        rows.append(Row(name or "(unnamed)", cells, colour))
    return rows


def error_table(run: Run, kinds: dict[str, str]) -> list[Row]:
    """One row for each kind of error: how many, and how many for each rollout."""
    rollouts = sum(tally.rollouts for tally in run.tallies.values())
    errors = sum((tally.errors for tally in run.tallies.values()), Counter[str]())
    return [
        Row(words, [f"{errors[kind]:,}", _rate(errors[kind], rollouts)], colour)
        for colour, (kind, words) in enumerate(kinds.items())
    ]


def environment_error_kinds(run: Run) -> dict[str, str]:
    """The environment's kinds of error, with one for unknown names where the run has such."""
    unnamed = any(tally.errors[UNNAMED_ERROR] for tally in run.tallies.values())
    return ENVIRONMENT_ERRORS | ({UNNAMED_ERROR: "other"} if unnamed else {})


def time_table(run: Run) -> list[Row]:
    """Mean seconds a step spent in each part, and the part's share of them all."""
    means = {key: _mean(run, key) for key in TIME_PARTS}
    whole = sum(mean or 0 for mean in means.values())
    return [
        Row(words, [f"{mean:.2f}", percent(mean / whole) if whole else DASH], colour)
        for colour, (key, words) in enumerate(TIME_PARTS.items())
        if (mean := means[key]) is not None
    ]


def time_notes(run: Run) -> list[str]:
    """What stands below the table of times: the whole step, and the share of it spent waiting for environments."""
    step, wait = _mean(run, "time/step"), _mean(run, "env_wait")
    notes = [] if step is None else [f"A step took {step:.2f} s on average."]
    if wait is not None:
        notes.append(f"Waiting for environments was {percent(wait)} of it (env_wait).")
    return notes


def held_out_table(run: Run) -> list[Row]:
    """Before and after, sampled and greedy: success, interval, rollouts, scored share, mean reward.

    Below each the same of every environment, where there were several.
    """
    rows = []
    for phase in ("before", "after"):
        for decoding in ("sampled", "greedy"):
            scores = record(record(run.evaluation.get(phase)).get(decoding))
            if not scores:
                continue
            rows.append(Row(f"{phase}, {decoding}", _held_out_cells(scores)))
            for name, of_it in record(scores.get("environments")).items():
                rows.append(Row(f"· {name}", _held_out_cells(record(of_it))))
    return rows


def _held_out_cells(scores: dict[str, Any]) -> list[str]:
    scored = number(scores.get("scored"))
    return [
        _two(number(scores.get("success"))),
        interval(scores) or DASH,
        judged(scores) or DASH,
        DASH if scored is None else percent(scored),
        _two(number(scores.get("reward"))),
    ]


def totals(run: Run) -> dict[int, Tally]:
    """Returns for each step, in order, the tallies of its environments added up."""
    steps: dict[int, Tally] = {}
    for (step, _), tally in run.tallies.items():
        total = steps.setdefault(step, Tally())
        total.rollouts += tally.rollouts
        total.scored += tally.scored
        total.reward += tally.reward
        total.errors.update(tally.errors)
    return dict(sorted(steps.items()))


def _mean(run: Run, key: str) -> float | None:
    values = [values[key] for values in run.metrics.values() if key in values]
    return sum(values) / len(values) if values else None


def _two(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def _rate(count: int, rollouts: int) -> str:
    return f"{count / rollouts:.3f}" if rollouts else DASH
