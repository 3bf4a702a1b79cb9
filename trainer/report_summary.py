"""The report's first lines: what the run came to, and what it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trainer.learning import count, nothing_differed, nothing_scored
from trainer.report_run import Run, number, record, records
from trainer.report_text import one_line, public_url, without_userinfo

STATUSES = ("finished", "interrupted", "failed", "running")
_NAME_LENGTH = 200
DASH = "\N{EN DASH}"


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


def headline(run: Run) -> Headline:
    """Says what the run came to: the held-out success, else the training reward, else that there is neither.

    A run that had nothing to learn from says so: no figure of it means anything of the training.
    """
    if why := nothing_scored(run.metrics):
        return Headline(f"No rollout was scored in {count(run.metrics)}", "", f"Nothing was learned: {why}")
    found = _came_to(run)
    if nothing_differed(run.metrics):
        said = "no group of rollouts had two different rewards, so nothing was learned"
        return replace(found, detail=f"{found.detail}; {said}")
    return found


def _came_to(run: Run) -> Headline:
    evaluated = [record(run.evaluation.get(phase)) for phase in ("before", "after")]
    before, after = (record(phase.get("sampled")) for phase in evaluated)
    if before or after:
        title = "Held-out success" if after else "Held-out success before training"
        figures = " → ".join(_success(sampled) for sampled in (before, after) if sampled)
        return Headline(title, figures, _held_out_detail(run, evaluated[1] if after else evaluated[0]))
    rewards = [values["reward"] for values in run.metrics.values() if "reward" in values]
    if rewards:
        logged = f"{len(rewards)} logged step{'s' if len(rewards) > 1 else ''}"
        ends = rewards if len(rewards) == 1 else [rewards[0], rewards[-1]]
        return Headline(
            "Training reward",
            " → ".join(f"{reward:.2f}" for reward in ends),
            f"first and last of {logged}; nothing was evaluated on held-out tasks" if len(rewards) > 1 else logged,
        )
    done = number(run.facts.get("step")) or max(run.metrics, default=0)
    return Headline("No reward is on record" if done else "No training step was finished", "", "")


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
    if rollouts := judged(sampled):
        parts.append(f"{rollouts} rollouts" + (" judged" if " of " in rollouts else ""))
    if between := interval(sampled):
        parts.append(f"95 % interval {between}")
    if (scored := number(sampled.get("scored"))) is not None and scored < 1:
        parts.append(f"{percent(scored)} of them scored")
    if by_name := record(sampled.get("environments")):
        parts.append(", ".join(f"{one_line(name, 60)} {_success(record(of_it))}" for name, of_it in by_name.items()))
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
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _success(sampled: dict[str, Any]) -> str:
    success = number(sampled.get("success"))
    return DASH if success is None else f"{success:.2f}"


def judged(scores: dict[str, Any]) -> str:
    """Returns an evaluation's number of rollouts; "3 of 4" where the environment failed some, "" without one."""
    n, fair = number(scores.get("n")), number(scores.get("judged"))
    if n is None:
        return ""
    return f"{n:,.0f}" if fair is None or fair == n else f"{fair:,.0f} of {n:,.0f}"


def interval(scores: dict[str, Any]) -> str:
    """Returns an evaluation's interval as two figures with a dash between, or "" without one."""
    low, high = number(scores.get("low")), number(scores.get("high"))
    return "" if low is None or high is None else f"{low:.2f}{DASH}{high:.2f}"


def percent(share: float) -> str:
    """Returns a share (0 to 1) in per cent, 100 only of everything and 0 only of nothing."""
    if 0.995 <= share < 1:
        return "> 99 %"
    if 0 < share < 0.005:
        return "< 1 %"
    return f"{100 * share:.0f} %"
