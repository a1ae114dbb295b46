"""The charts of a report as figures for papers: SVG and PDF, as wide as a column of two."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from navrl.loggers.format import count
from navrl.storage.files import replacing
from navrl.view.figure import check_viz, new_figure

KINDS = ("svg", "pdf")
_INCHES = (3.3, 2.3)
_STYLE = {
    **{"font.size": 7, "axes.titlesize": 8, "axes.labelsize": 7, "legend.fontsize": 6},
    **{
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.2,
    },
    **{"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False},
    **{
        "pdf.fonttype": 42,
        "svg.hashsalt": "navrl",
    },  # fonts that journals take; the same names every time
}
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
# The rule of the axes of the page, navrl/view/page/chart_axis.js; a test compares both.
_MOST_BAND = 0.5  # an interval may add this share of the range of the lines to either end
_FROM_ZERO = 0.35  # an axis begins at 0 if its lowest value is below this share of its highest
_FLAT = 1e-9  # of a value: less than that is rounding
_BELOW, _ABOVE = 0.05, 0.06  # room, of the range
_LONGEST_NAME = 100
_MOST_IN_LEGEND = 12


def write_figures(data: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write every chart in the data of a report, and return the files."""
    check_viz()
    written = []
    matplotlib = importlib.import_module("matplotlib")
    with matplotlib.rc_context(_STYLE):
        for name, chart in _named(data):
            figure = new_figure(_INCHES)
            _draw(figure.add_subplot(), chart, data["frames"])
            for kind in KINDS:
                file = folder / f"{name}.{kind}"
                with replacing(file) as temporary:
                    figure.savefig(
                        temporary,
                        format=kind,
                        bbox_inches="tight",
                        pad_inches=0.02,
                        metadata=_UNDATED[kind],
                    )
                written.append(file)
    return written


def _named(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the charts with names for files, which are neither equal nor hidden nor anything but names."""
    used: set[str] = set()
    for section in data["sections"]:
        for chart in section["charts"]:
            plain = re.sub(r"[^\w.-]+", "-", chart["title"], flags=re.ASCII).strip("-.")
            name = first = plain[:_LONGEST_NAME] or "chart"
            number = 2
            while name.lower() in used:
                name, number = f"{first}-{number}", number + 1
            used.add(name.lower())
            yield name, chart


def _draw(axes: Any, chart: Mapping[str, Any], frames: Sequence[int]) -> None:
    x, tones = np.array(frames, dtype=float), _tones()
    if chart["kind"] == "lines":
        for line in chart["lines"]:
            _draw_line(axes, line, x, tones[line["tone"] % len(tones)])
        low, high, most = _limits(chart)
        axes.set_ylim(low, high)
        if most is not None:
            axes.set_title(f"first values, up to {most:.3g}, are cut off", loc="right", fontsize=6)
    else:
        _draw_parts(axes, chart, x, tones)
    axes.set_xlim(0, x[-1])
    axes.set_xlabel("frames")
    axes.set_ylabel(chart["unit"])
    axes.set_title(chart["title"], loc="left", fontweight="bold", wrap=True)
    axes.xaxis.set_major_formatter(lambda value, _: count(value))
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="y", linewidth=0.4, alpha=0.4)
    if 1 < len(chart["lines"]) <= _MOST_IN_LEGEND:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
        axes.legend(
            ncols=1 if any(len(line["label"]) > 24 for line in chart["lines"]) else 2, **place
        )


def _draw_line(axes: Any, line: Mapping[str, Any], x: np.ndarray, colour: str) -> None:
    """Draw a mean with its interval, and single runs."""
    pale = line.get("pale", False)
    strength, width = (0.55, 0.7) if pale else (1.0, 1.2)
    mean = np.array(line["mean"], dtype=float)
    known = np.isfinite(mean)
    for run in line.get("each", []):
        values = np.array(run, dtype=float)
        there = np.isfinite(values)
        axes.plot(x[there], values[there], color=colour, alpha=0.3, linewidth=0.5)
    if "low" in line:
        low, high = (np.array(line[end], dtype=float) for end in ("low", "high"))
        there = np.isfinite(low) & np.isfinite(high)
        axes.fill_between(
            x[there],
            low[there],
            high[there],
            color=colour,
            alpha=0.08 if pale else 0.17,
            linewidth=0,
        )
    axes.plot(
        x[known], mean[known], color=colour, alpha=strength, linewidth=width, label=line["label"]
    )


def _draw_parts(axes: Any, chart: Mapping[str, Any], x: np.ndarray, tones: Sequence[str]) -> None:
    """Draw parts on top of each other, as shares where the chart is one of shares."""
    parts = np.nan_to_num(np.array([line["mean"] for line in chart["lines"]], dtype=float))
    whole = parts.sum(axis=0)
    parts, x = parts[:, whole > 0], x[whole > 0]
    if chart["kind"] == "stack":
        parts = parts / whole[whole > 0]
    colours = [tones[line["tone"] % len(tones)] for line in chart["lines"]]
    labels = [line["label"] for line in chart["lines"]]
    axes.stackplot(x, parts, colors=colours, labels=labels, alpha=0.85, linewidth=0)
    first = chart["settled"]
    rest = whole[first:] if np.any(whole[first:]) else whole
    axes.set_ylim(0, 1 if chart["kind"] == "stack" else rest.max() * (1 + _ABOVE))


def _limits(chart: Mapping[str, Any]) -> tuple[float, float, float | None]:
    """Return the ends of the axis, and the farthest of the first values that are cut off, or None."""
    lines, first = chart["lines"], chart["settled"]
    curves = [each for line in lines for each in (line["mean"], *line.get("each", []))]
    every = np.array(curves, dtype=float)
    all_known, kept = _known(every), _known(every[:, first:])
    kept = kept if kept.size else all_known
    ends = [line[end][first:] for line in lines if "low" in line for end in ("low", "high")]
    low, high = around(kept, _known(np.array(ends, dtype=float)))
    far = all_known[
        (all_known < kept.min(initial=np.inf)) | (all_known > kept.max(initial=-np.inf))
    ]
    return low, high, float(far[np.abs(far).argmax()]) if far.size else None


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def around(values: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Return the bounds of an axis of these values with some room; intervals add up to a limit."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    most = _MOST_BAND * ((high - low) or abs(high) or 1.0)
    low = max(low - most, min(low, float(ends.min(initial=np.inf))))
    high = min(high + most, max(high, float(ends.max(initial=-np.inf))))
    size = max(abs(low), abs(high))
    room = high - low if high - low > _FLAT * size else size or 1.0
    zero = float(values.min()) >= 0 and low < _FROM_ZERO * high
    return 0.0 if zero else low - _BELOW * room, high + _ABOVE * room


def _tones() -> list[str]:
    """Return the colours of the light theme of the pages."""
    text = resources.files("navrl.view").joinpath("page", "theme.js").read_text(encoding="utf-8")
    (found,) = re.findall(r"const LIGHT = \{.*?tones: (\[.*?\])", text, re.DOTALL)
    tones: list[str] = json.loads(found)
    return tones
