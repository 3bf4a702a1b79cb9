"""`report.html`: what a person looks at after a run, one self-contained file made from the run folder.

It needs no network and no script, and follows the reader's light or dark setting. matplotlib and jinja2 are imported
when a report is written, not with this module.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import report_summary as summary
from trainer import report_tables as tables
from trainer.report_cards import card
from trainer.report_charts import COLOURS, Held, Series, curves, stack
from trainer.report_run import FILES, MODEL_ERRORS, Run, Tally, number, read_run, record
from trainer.report_text import one_line, readable


class ReportError(Exception):
    """A report could not be written. The message is one line and says why."""


@dataclass(frozen=True)
class Chart:
    """A picture with what the page says round it: title, unit, and a legend of (colour, words) pairs."""

    title: str
    svg: str
    legend: list[tuple[int, str]]


def write_report(run: Path) -> Path:
    """Writes `report.html` into a run folder, whole or not at all, and returns its path.

    Whatever is missing or cut off in the folder is a note on the page.

    Args:
        run: the folder that a run left, finished or not.

    Raises:
        ReportError: the folder is no run folder, cannot be read or written, or the page could not be made of it. No
            other exception leaves this function, so a caller that catches it never loses a run to its report.
    """
    if not run.is_dir():
        raise ReportError(f"no report: {run} is not a folder")
    if not any((run / name).is_file() for name in FILES):
        raise ReportError(f"no report: {run} is not a run folder (it has none of {', '.join(FILES)})")
    try:
        page = _render(read_run(run))
        return _replace(run / "report.html", page)
    except OSError as error:
        raise ReportError(f"no report: {error.filename or run}: {error.strerror or error}") from error
    except ImportError as error:
        raise ReportError(f"no report: {error}; install the trainer with pip install '.[train]'") from error
    except Exception as error:
        said = one_line(f"{type(error).__name__}: {error}", 300)
        raise ReportError(f"no report: {run} could not be shown: {said}") from error


def _replace(path: Path, page: str) -> Path:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
    return path


def _render(run: Run) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: object) -> object:
        return readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["drawing"] = Markup
    return templates.get_template("report.html.j2").render(_contents(run))


def _contents(run: Run) -> dict[str, Any]:
    return {
        "name": run.folder.resolve().name,
        "headline": summary.headline(run),
        "facts": summary.facts(run),
        "rewards": _reward_charts(run),
        "environments": tables.environment_table(run) if len(run.environments()) > 1 else [],
        "rollouts": sum(tally.rollouts for tally in run.tallies.values()),
        "errors": [
            _errors(run, "Model errors", MODEL_ERRORS, "env/model_errors"),
            _errors(run, "Environment errors", tables.environment_error_kinds(run), "env/environment_errors"),
        ],
        "time": _time_chart(run),
        "times": tables.time_table(run),
        "time_notes": tables.time_notes(run),
        "sampled_from": run.sampled_from,
        "samples": [(name, _steps(rows), [card(row) for row in rows]) for name, rows in _samples(run) if rows],
        "held_out": tables.held_out_table(run),
        "notes": run.notes,
    }


def _samples(run: Run) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    return ("Early", run.early), ("Late", run.late)


def _steps(rows: list[dict[str, Any]]) -> str:
    steps = sorted({int(step) for row in rows if (step := number(row.get("step"))) is not None})
    if not steps:
        return ""
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _logged(run: Run, key: str) -> list[tuple[float, float]]:
    return [(step, values[key]) for step, values in run.metrics.items() if key in values]


def _reward_charts(run: Run) -> list[Chart]:
    totals = tables.totals(run)
    rewards = _logged(run, "reward") or _mean_rewards(totals)
    scored, held = _logged(run, "env/scored") or _scored_shares(totals), _held_out(run)
    charts = []
    if rewards or scored or held:
        legend = [(0, "training reward, mean of the scored rollouts")] if rewards else []
        if held:
            interval = ", 95 % interval" if any(mark.interval for mark in held) else ""
            legend.append((1, f"held out: ◇ before, ◆ after{interval}"))
        legend += [(2, "share of rollouts scored")] if scored else []
        svg = curves([Series(0, rewards)], [Series(2, scored)], held, label="Reward and scored share by step")
        charts.append(Chart("Mean reward by step", svg, legend))
    names = run.environments()[:COLOURS]
    if len(names) > 1:
        rows = [(i, name, *_of_environment(run, name)) for i, name in enumerate(names)]
        if any(reward or share for _, _, reward, share in rows):
            svg = curves(
                [Series(i, reward) for i, _, reward, _ in rows],
                [Series(i, share) for i, _, _, share in rows],
                [],
                label="Reward and scored share by environment",
            )
            charts.append(Chart("Reward by environment", svg, [(i, name) for i, name, _, _ in rows]))
    return charts


def _of_environment(run: Run, name: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """One environment's reward and scored share by step: as logged, else from its rollouts."""
    tallies = {step: tally for (step, at), tally in sorted(run.tallies.items()) if at == name}
    reward = _logged(run, f"env/{name}/reward") or _mean_rewards(tallies)
    return reward, _logged(run, f"env/{name}/scored") or _scored_shares(tallies)


def _mean_rewards(tallies: dict[int, Tally]) -> list[tuple[float, float]]:
    return [(step, tally.reward / tally.scored) for step, tally in tallies.items() if tally.scored]


def _scored_shares(tallies: dict[int, Tally]) -> list[tuple[float, float]]:
    return [(step, tally.scored / tally.rollouts) for step, tally in tallies.items()]


def _held_out(run: Run) -> list[Held]:
    """The held-out scores in the reward's unit: mean rewards, with the interval where that is the success rate."""
    last = max(run.metrics, default=int(number(run.facts.get("step")) or 0))
    marks = []
    for phase, step in (("before", 0), ("after", last)):
        sampled = record(record(run.evaluation.get(phase)).get("sampled"))
        success, low, high = (number(sampled.get(key)) for key in ("success", "low", "high"))
        reward = number(sampled.get("reward"))
        score = success if reward is None else reward
        if score is None:
            continue
        is_success = success is not None and abs(score - success) < 0.005
        interval = (low, high) if is_success and low is not None and high is not None else None
        marks.append(Held(step, score, interval, after=phase == "after"))
    return marks


def _errors(run: Run, title: str, kinds: dict[str, str], metric: str) -> tuple[str, Chart | None, list[tables.Row]]:
    """A chart and a table by kind, from the rollouts; without rollouts the chart of the logged total and no table.

    Without an error there is no chart, and without either source no row.
    """
    totals = tables.totals(run)
    if totals:
        layers = [
            Series(i, [(step, total.errors[kind] / total.rollouts) for step, total in totals.items()])
            for i, kind in enumerate(kinds)
        ]
        rows = tables.error_table(run, kinds)
    else:
        layers = [Series(0, _logged(run, metric))]
        rows = []
    drawn = [layer for layer in layers if any(y for _, y in layer.points)]
    if not drawn:
        return title, None, rows
    svg = stack(drawn, unit="per rollout", label=f"{title} per rollout by step")
    return title, Chart(title, svg, []), rows


def _time_chart(run: Run) -> Chart | None:
    steps = [step for step, values in run.metrics.items() if any(part in values for part in tables.TIME_PARTS)]
    if not steps:
        return None
    layers = []
    for colour, part in enumerate(tables.TIME_PARTS):
        points = [(float(step), max(0.0, run.metrics[step].get(part, 0.0))) for step in steps]
        if any(y for _, y in points):
            layers.append(Series(colour, points))
    if not layers:
        return None
    return Chart("Wall time of each step", stack(layers, unit="seconds", label="Seconds of a step by part"), [])
