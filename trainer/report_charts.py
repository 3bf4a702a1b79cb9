"""The report's pictures: matplotlib figures as inline SVG that take their colours and fonts from the page.

Nothing a run names is drawn: legends are the page's own, so no glyph is ever missing and no name is read as markup.
Colours go in as placeholders and come out as the page's CSS variables, which is how one picture serves light and dark.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

COLOURS = 7
_WIDTH = 5.6  # inches; 72 units of the SVG each
_POINTS = 240
_BINS = 120

_INK, _GRID, _PAPER = "#010101", "#020202", "#030303"
_SERIES = [f"#0400{index:02x}" for index in range(COLOURS)]
_PAINT = {_INK: "var(--muted)", _GRID: "var(--rule)", _PAPER: "var(--card)"} | {
    placeholder: f"var(--series-{index})" for index, placeholder in enumerate(_SERIES)
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",  # the same run gives the same page
    "font.size": 10.0,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "xtick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.color": _GRID,
    "ytick.labelcolor": _INK,
    "ytick.major.size": 0,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
}

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One curve or one layer of a stack. `colour` counts the page's series colours from 0."""

    colour: int
    points: Points


@dataclass(frozen=True)
class Held:
    """A held-out score drawn beside a curve, with its interval where it has one."""

    step: float
    score: float
    interval: tuple[float, float] | None
    after: bool


def smooth(points: Points) -> list[tuple[float, float]]:
    """Returns a centred moving average over about a tenth of the points (at most 25), narrower at both ends."""
    half = min(12, len(points) // 20)
    averaged = []
    for index, (x, _) in enumerate(points):
        reach = min(half, index, len(points) - 1 - index)
        near = points[index - reach : index + reach + 1]
        averaged.append((x, sum(y for _, y in near) / len(near)))
    return averaged


def thin(points: Points, limit: int) -> list[tuple[float, float]]:
    """Returns at most `limit` points, each the mean of as many neighbours as it takes."""
    size = -(-len(points) // limit) or 1
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]


def curves(rewards: Sequence[Series], scored: Sequence[Series], held: Sequence[Held], *, label: str) -> str:
    """Draws reward over steps and, below on the same steps, the share of rollouts that were scored.

    One series is drawn raw with its moving average over it, several as moving averages only.
    """
    with _figure(3.5) as (figure, finish):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for series in rewards:
            _curve(above, series, raw=len(rewards) == 1)
        for mark in held:
            _held(above, mark)
        for series in scored:
            _curve(below, series, raw=False, smoothed=False)
        above.set_ylabel("reward")
        low, high = above.get_ylim()
        if low > -0.2 and high < 1.2:
            above.set_ylim(-0.03, 1.04)
        below.set_ylim(-0.06, 1.08)
        below.set_yticks([0, 0.5, 1], ["0", "50", "100"])
        below.set_ylabel("scored %")
        _axes(above)
        _axes(below, xlabel="step")
        figure.align_ylabels()
        return finish(label)


def stack(layers: Sequence[Series], *, unit: str, label: str) -> str:
    """Draws layers on top of each other, a bar for each step (or for a few neighbouring steps in a long run).

    Args:
        layers: all over the same steps.
        unit: what the height is.
    """
    with _figure(2.5) as (figure, finish):
        axes = figure.subplots()
        binned = [thin(layer.points, _BINS) for layer in layers]
        steps = [x for x, _ in binned[0]]
        edges = _edges(steps)
        tops = list(accumulate(([y for _, y in points] for points in binned), _added))
        # Each layer reaches down to zero behind the ones below it: where two only met, a seam would show.
        for layer, top in reversed(list(zip(layers, tops, strict=True))):
            axes.fill_between(edges, 0, [*top, top[-1]], step="post", color=_colour(layer.colour), linewidth=0)
        axes.set_ylim(0, max(tops[-1]) * 1.06 or 1)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylabel(unit)
        _axes(axes, xlabel="step")
        return finish(label)


def _added(below: Sequence[float], heights: Sequence[float]) -> list[float]:
    return [low + height for low, height in zip(below, heights, strict=True)]


def _edges(steps: Sequence[float]) -> list[float]:
    """Borders of the bars: halfway between neighbours."""
    inner = [(left + right) / 2 for left, right in pairwise(steps)]
    half_first = inner[0] - steps[0] if inner else 0.5
    half_last = steps[-1] - inner[-1] if inner else 0.5
    return [steps[0] - half_first, *inner, steps[-1] + half_last]


def _curve(axes: Any, series: Series, *, raw: bool, smoothed: bool = True) -> None:
    colour = _colour(series.colour)
    line = thin(smooth(series.points) if smoothed else series.points, _POINTS)
    marker = "o" if len(line) == 1 else None
    if raw and len(line) > 1:
        axes.plot(*zip(*thin(series.points, _POINTS), strict=True), color=colour, linewidth=0.9, alpha=0.4)
    if line:
        axes.plot(*zip(*line, strict=True), color=colour, linewidth=1.8, marker=marker, markersize=5)


def _held(axes: Any, mark: Held) -> None:
    if mark.interval:
        low, high = mark.interval
        axes.vlines(mark.step, low, high, color=_colour(1), linewidth=1.6)
    face = _colour(1) if mark.after else _PAPER
    axes.plot(
        [mark.step], [mark.score], "D", color=_colour(1), markerfacecolor=face, markersize=5.5, zorder=5, clip_on=False
    )


def _axes(axes: Any, *, xlabel: str | None = None) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.grid(axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.margins(x=0.02)
    if xlabel:
        axes.set_xlabel(xlabel)


def _colour(index: int) -> str:
    return _SERIES[index % COLOURS]


@contextmanager
def _figure(height: float) -> Iterator[tuple[Any, Callable[[str], str]]]:
    """Yields a figure and the function that turns it into SVG; the process's matplotlib settings are left alone."""
    with _quiet():
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE)
            figure = Figure(figsize=(_WIDTH, height), layout="constrained")
            yield figure, lambda label: _svg(figure, label)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps matplotlib's remarks on its font cache and its folders off the terminal; it copes with both by itself."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _svg(figure: Any, label: str) -> str:
    """Returns the figure as an SVG element fit for a page of several: own ids, no style sheet, no size.

    Args:
        label: plain words that no other picture on the page has.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", drawing, flags=re.DOTALL)
    prefix = re.sub(r"\W+", "-", label.split(".")[0].lower())
    drawing = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{prefix}-", drawing)
    view = re.search(r'viewBox="[^"]*"', drawing)
    assert view is not None, "matplotlib writes a viewBox"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view[0]} role="img"'
    drawing = re.sub(r"<svg[^>]*>", f'{opening} aria-label="{label}">', drawing, count=1)
    return re.sub("#0[0-4]0[0-3]0[0-9a-f]", lambda colour: _PAINT.get(colour[0], colour[0]), drawing)
