"""The report's words and tables: what the run came to, what it ran, where its time and its errors were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainer.report_run import ENVIRONMENT_ERRORS, MODEL_ERRORS, UNNAMED_ERROR, Run, Tally, number, record, records
from trainer.report_text import one_line, public_url, without_userinfo

TIME_PARTS = {
    "time/open": "opening sessions",
    "time/calls": "tool calls",
    "time/generate": "generating",
    "time/forward": "forward",
    "time/backward": "backward",
    "time/other": "other",
}
STATUSES = ("finished", "interrupted", "failed", "running")
_NAME_LENGTH = 200
_DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Headline:
    """The first thing on the page. `figures` is empty where nothing was evaluated."""

    title: str
    figures: str
    detail: str


@dataclass(frozen=True)
class Facts:
    """What the run was. `status` is one of STATUSES or "unknown"; `rows` are (name, values) pairs."""

    status: str
    message: str
    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Row:
    """A line of a table: its name, its cells as shown, and the colour it has in the chart, if any."""

    name: str
    cells: Sequence[str]
    colour: int | None = None


def headline(run: Run) -> Headline:
    """Says how the run ended in one line: the held-out success, else the training reward, else that there is neither."""
    before, after = (record(run.evaluation.get(phase)) for phase in ("before", "after"))
    scores = [number(record(phase.get("sampled")).get("success")) for phase in (before, after)]
    shown = [f"{score:.2f}" for score in scores if score is not None]
    if shown:
        title = "Held-out success" if scores[1] is not None else "Held-out success before training"
        return Headline(title, " → ".join(shown), _held_out_detail(run, after if scores[1] is not None else before))
    rewards = [values["reward"] for values in run.metrics.values() if "reward" in values]
    if rewards:
        ends = rewards if len(rewards) == 1 else [rewards[0], rewards[-1]]
        steps = f"{len(rewards)} logged step{'s' if len(rewards) > 1 else ''}"
        return Headline(
            "Training reward",
            " → ".join(f"{reward:.2f}" for reward in ends),
            f"first and last of {steps}; nothing was evaluated on held-out tasks" if len(rewards) > 1 else steps,
        )
    return Headline("No training step was finished", "", "")


def _held_out_detail(run: Run, evaluated: dict[str, Any]) -> str:
    sampled = record(evaluated.get("sampled"))
    trained = {str(row.get("split")) for row in records(run.facts.get("environments"))}
    split = str(evaluated.get("split"))
    parts = []
    if (tasks := number(evaluated.get("tasks"))) is not None:
        parts.append(
            f"{tasks:.0f} tasks of the split {one_line(split, 60)}"
            if split in trained or not trained
            else f"{tasks:.0f} tasks never trained on"
        )
    if (n := number(sampled.get("n"))) is not None:
        parts.append(f"{n:.0f} rollouts")
    if interval := _interval(sampled):
        parts.append(f"95 % interval {interval}")
    if (scored := number(sampled.get("scored"))) is not None and scored < 1:
        parts.append(f"{_percent(scored)} of them scored")
    return ", ".join(parts)


def facts(run: Run) -> Facts:
    """Collects what run.json says, in the order a reader asks for it."""
    told = run.facts
    status = str(told.get("status"))
    rows: list[tuple[str, Sequence[str]]] = [
        ("Model", _texts(told.get("model"))),
        ("Environments", [_environment(row) for row in records(told.get("environments"))]),
        ("Steps", [_steps(run)]),
        ("Seed", _texts(told.get("seed"))),
        ("Started", _texts(_moment(told.get("started")))),
        ("Duration", [duration] if (duration := _duration(told)) else []),
        ("Command", _texts(told.get("command"))),
        ("Versions", [", ".join(f"{name} {version}" for name, version in record(told.get("versions")).items())]),
    ]
    return Facts(
        status if status in STATUSES else "unknown",
        one_line(without_userinfo(str(told.get("message") or "")), 500),
        [(name, kept) for name, values in rows if (kept := [value for value in values if value])],
    )


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return [] if value is None else [one_line(without_userinfo(str(value)), _NAME_LENGTH)]


def _environment(row: dict[str, Any]) -> str:
    parts = [str(row.get("name") or "unnamed")]
    if row.get("env_name") and row["env_name"] != row.get("name"):
        parts.append(f"({row['env_name']})")
    if row.get("url"):
        parts.append(f"at {public_url(str(row['url']))}")
    detail = [str(row["split"])] if row.get("split") else []
    if (tasks := number(row.get("num_tasks"))) is not None:
        detail.append(f"{tasks:.0f} tasks")
    return one_line(" ".join(parts) + (f" · {', '.join(detail)}" if detail else ""), _NAME_LENGTH)


def _steps(run: Run) -> str:
    done, planned = number(run.facts.get("step")), number(run.facts.get("steps"))
    if done is None:
        done = float(max(run.metrics, default=0))
    text = f"{done:.0f}" if planned is None else f"{done:.0f} of {planned:.0f}"
    resumed = number(run.facts.get("resumed_from"))
    return text if resumed is None else f"{text}, resumed from step {resumed:.0f}"


def _moment(value: object) -> str | None:
    try:
        return datetime.fromisoformat(str(value)).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return None


def _duration(told: dict[str, Any]) -> str:
    seconds = record(told.get("seconds"))
    total, training = number(seconds.get("total")), number(seconds.get("training"))
    if total is None:
        try:
            ends = [datetime.fromisoformat(str(told.get(name))) for name in ("started", "finished")]
            total = (ends[1] - ends[0]).total_seconds()
        except (ValueError, TypeError):
            return ""
    return _clock(total) if training is None else f"{_clock(total)}, training {_clock(training)} of it"


def _clock(seconds: float) -> str:
    whole = round(max(0.0, seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


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
            _percent(scored / rollouts) if rollouts else _DASH,
            f"{sum(t.reward for t in tallies) / scored:.2f}" if scored else _DASH,
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
        Row(words, [f"{mean:.2f}", _percent(mean / whole) if whole else _DASH], colour)
        for colour, (key, words) in enumerate(TIME_PARTS.items())
        if (mean := means[key]) is not None
    ]


def time_notes(run: Run) -> list[str]:
    """What stands below the table of times: the whole step, and the share of it spent waiting for environments."""
    step, wait = _mean(run, "time/step"), _mean(run, "env_wait")
    notes = [] if step is None else [f"A step took {step:.2f} s on average."]
    if wait is not None:
        notes.append(f"Waiting for environments was {_percent(wait)} of it (env_wait).")
    return notes


def held_out_table(run: Run) -> list[Row]:
    """Before and after, sampled and greedy: success, interval, rollouts, scored share, mean reward."""
    rows = []
    for phase in ("before", "after"):
        for decoding in ("sampled", "greedy"):
            scores = record(record(run.evaluation.get(phase)).get(decoding))
            if not scores:
                continue
            n, scored = number(scores.get("n")), number(scores.get("scored"))
            cells = [
                _two(number(scores.get("success"))),
                _interval(scores) or _DASH,
                _DASH if n is None else f"{n:,.0f}",
                _DASH if scored is None else _percent(scored),
                _two(number(scores.get("reward"))),
            ]
            rows.append(Row(f"{phase}, {decoding}", cells))
    return rows


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


def _interval(scores: dict[str, Any]) -> str:
    low, high = number(scores.get("low")), number(scores.get("high"))
    return "" if low is None or high is None else f"{low:.2f}{_DASH}{high:.2f}"


def _two(value: float | None) -> str:
    return _DASH if value is None else f"{value:.2f}"


def _percent(share: float) -> str:
    """A share in per cent that says 100 only of everything and 0 only of nothing."""
    shown = 100 * share
    if 99.5 <= shown < 100 or 0 < shown < 0.5:
        return f"{shown:.1f} %" if 0.05 <= shown < 99.95 else ("> 99.9 %" if shown > 50 else "< 0.1 %")
    return f"{shown:.0f} %"


def _rate(count: int, rollouts: int) -> str:
    return f"{count / rollouts:.3f}" if rollouts else _DASH
