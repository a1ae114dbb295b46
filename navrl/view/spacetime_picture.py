"""The space-time graph of one moment as a picture: what a missile reaches, and where its prey is then."""

import importlib
import math
import textwrap
from pathlib import Path
from typing import Any

from navrl.envs.combat.sim.lines import Steered
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.reach import TIME_STEP_S, reach_table
from navrl.view.footage import arrow
from navrl.view.spacetime import line_points, outlines

_COLOURS = ("#7b3294", "#2166ac", "#1b9e77", "#d95f02")  # one per time, on both graphs
_STYLES = {"left": "-", "right": "-", "current": (0, (4, 3))}
_WORDS = {"left": "left", "right": "right", "current": "straight on"}
_BEYOND = 12  # points from the end of a line to its label
_INCHES, _DPI, _TITLE_COLUMNS = (8.0, 6.0), 100, 80


def write_png(
    path: Path,
    params: CombatParams,
    mine: Steered,
    his: Steered,
    *,
    critical_s: float,
    title: str,
    names: tuple[str, str],
) -> None:
    """From above: his missile's reach at four times until the critical one, and my lines until then.

    A dot outside the outline of its colour is out of reach at that time.
    """
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=_INCHES, dpi=_DPI)
    axes = figure.add_subplot()
    times_s = _four_times(critical_s)
    shapes, _ = outlines(reach_table(params), his.motion, times_s)
    for time_s, shape, colour in zip(times_s, shapes, _COLOURS, strict=True):
        x_km, y_km = _km(shape)
        axes.fill(x_km, y_km, color=colour, alpha=0.05)
        axes.plot(x_km, y_km, color=colour, lw=1.2, label=f"in reach after {time_s:g} s")
    seconds = range(math.ceil(times_s[-1]) + 1)
    paths = line_points(params, mine, his.motion, [float(second) for second in seconds])
    dots = line_points(params, mine, his.motion, times_s)
    for name, style in _STYLES.items():
        axes.plot(*_km(paths[name]), color="#333333", lw=1.2, ls=style)
        for x, y, colour in zip(*_km(dots[name]), _COLOURS, strict=True):
            axes.plot(x, y, "o", ms=7, mfc=colour, mec="white", mew=0.8)
        _label_end(axes, _WORDS[name], *_km(paths[name]))
    for craft, name in zip((mine, his), names, strict=True):
        _draw_aircraft(axes, craft, name)
    axes.margins(0.12)  # room for the labels
    axes.set_aspect("equal")
    axes.set_xlabel("km")
    axes.set_ylabel("km")
    axes.grid(alpha=0.25)
    axes.legend(loc="best", fontsize=8)
    axes.set_title(textwrap.fill(title, _TITLE_COLUMNS), fontsize=9)
    figure.savefig(path, format="png", bbox_inches="tight")


def _four_times(critical_s: float) -> list[float]:
    """Quarters of the time until it is tightest, in steps of the table."""
    steps = max(round(critical_s / TIME_STEP_S), len(_COLOURS))
    return [TIME_STEP_S * round(steps * part / 4) for part in (1, 2, 3, 4)]


def _km(points: list[list[float]]) -> tuple[list[float], list[float]]:
    return [point[0] / 1e3 for point in points], [point[1] / 1e3 for point in points]


def _label_end(axes: Any, text: str, x_km: list[float], y_km: list[float]) -> None:
    """A label beyond the end of a line, where the line is not."""
    ahead = math.atan2(y_km[-1] - y_km[-2], x_km[-1] - x_km[-2])
    cos, sin = math.cos(ahead), math.sin(ahead)
    axes.annotate(
        text,
        (x_km[-1], y_km[-1]),
        (_BEYOND * cos, _BEYOND * sin),
        textcoords="offset points",
        fontsize=8,
        ha="left" if cos > 0.3 else "right" if cos < -0.3 else "center",
        va="bottom" if sin > 0.3 else "top" if sin < -0.3 else "center",
    )


def _draw_aircraft(axes: Any, craft: Steered, name: str) -> None:
    x_m, y_m, cos, sin, _ = (field.item() for field in craft.motion)
    marker = arrow(math.atan2(sin, cos))
    axes.plot(x_m / 1e3, y_m / 1e3, ls="", marker=marker, ms=15, color="black")
    axes.annotate(name, (x_m / 1e3, y_m / 1e3), (8, -14), textcoords="offset points", fontsize=9)
