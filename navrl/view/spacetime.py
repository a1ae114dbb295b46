"""The space-time graph of one aircraft: as plain data for JSON and for pages, and as a picture (PNG)."""

import importlib
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import focal_index
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.prediction import (
    SIDES,
    Chase,
    Line,
    Shot,
    Steered,
    along,
    arc_s,
    begun,
    current_line,
    pursued,
    three_lines,
)
from navrl.envs.combat.sim.reach import TIME_STEP_S, ReachTable, cell, interpolated, reach_table
from navrl.envs.combat.sim.spacetime import Margins, margins
from navrl.envs.combat.sim.state import CombatState, enemies_of
from navrl.storage.files import replacing
from navrl.view.figure import arrow

LINE_TIMES_S = tuple(range(21))
CONE_TIMES_S = tuple(2.5 * step for step in range(1, 9))
CONE_ANGLES_DEG = tuple(range(-180, 181, 10))
SPEED_OF_SOUND_MPS = 340.0  # a slower missile is drawn pale: it hits no target
_PART_OF_TIME_TO_GO, _LONGEST_ARC_S, _MOST_ARCS = 0.1, 0.5, 160  # of a missile's path
_RECEDING_S = 5.0  # a missile without thrust that has receded for so long does not come back

Point = list[float]


def spacetime_graph(params: CombatParams, state: CombatState, env: int, me: int) -> dict[str, Any]:
    """Compute the graph of aircraft `me` in one env, in world coordinates: metres, seconds, degrees.

    lines: its escapes to the left and right and its current line, [x, y, t] once a second for 20 s;
    cone: the reach of a missile of the nearest enemy, as one outline per time, no_threat where it would be
    slow there; missiles: the path of each missile aimed at it, against its current line, until the closest
    point; margins, attack: the margins of its escapes if the enemy launched now, and those of the enemy's
    escapes if it launched.
    """
    enemy = nearest_enemy(params, state, env, me)
    own, other = steered(state, env, me), steered(state, env, enemy)
    table = reach_table(params)
    slices, no_threat = outlines(table, other.motion, CONE_TIMES_S)
    return {
        "me": me,
        "enemy": enemy,
        "lines": line_points(params, own, other.motion, LINE_TIMES_S),
        "cone": {
            "times": list(CONE_TIMES_S),
            "angles_deg": list(CONE_ANGLES_DEG),
            "slices": slices,
        },
        "no_threat": no_threat,
        "missiles": _missiles(params, state, env, me),
        "margins": plain_margins(margins(params, table, other.motion, own)),
        "attack": plain_margins(margins(params, table, own.motion, other)),
    }


def steered(state: CombatState, env: int, index: int) -> Steered:
    """Return one aircraft of one env, fields (1,) on the CPU."""
    craft = state.aircraft

    def here(field: Tensor) -> Tensor:
        return field[index, env : env + 1].cpu()

    return Steered(Motion(*map(here, craft.motion)), here(craft.rudder), here(craft.throttle))


def nearest_enemy(params: CombatParams, state: CombatState, env: int, me: int) -> int:
    """Return the index of the nearest living enemy, or of the first when none is alive."""
    return enemies_of(params, me)[int(focal_index(params, state, me)[env])]


def plain_margins(found: Margins) -> dict[str, float]:
    """Return the margins of one aircraft as numbers."""
    left_m, right_m, current_m, critical_s = (field.item() for field in found)
    return {
        "left_m": round(left_m),
        "right_m": round(right_m),
        "current_m": round(current_m),
        "critical_s": _time(critical_s),
    }


def line_points(
    params: CombatParams, own: Steered, threat: Motion, times_s: Sequence[float]
) -> dict[str, list[Point]]:
    """Return the escapes from the threat and the current line, by name, [x, y, t] at these times."""
    line = three_lines(params.fighter, own, threat)
    place = along(params.fighter, line, torch.tensor(times_s, dtype=torch.float32))  # (3, T)
    return {
        name: [[round(x), round(y), time_s] for x, y, time_s in zip(xs, ys, times_s, strict=True)]
        for name, xs, ys in zip(SIDES, place.x_m.tolist(), place.y_m.tolist(), strict=True)
    }


def outlines(
    table: ReachTable, launcher: Motion, times_s: Sequence[float]
) -> tuple[list[list[Point]], list[list[bool]]]:
    """Return outlines (times, angles) of the reach in world coordinates, and where the missile is slow."""
    angle = torch.deg2rad(torch.tensor(CONE_ANGLES_DEG, dtype=torch.float32))
    cos, sin = torch.cos(angle), torch.sin(angle)
    place = cell(launcher.speed_mps, cos, sin)
    rows = table.at(times_s)
    reach_m = interpolated(rows.distance_m, place)  # (T, angles)
    x_m = launcher.x_m + reach_m * (launcher.cos_heading * cos - launcher.sin_heading * sin)
    y_m = launcher.y_m + reach_m * (launcher.sin_heading * cos + launcher.cos_heading * sin)
    points = [
        [[round(x), round(y)] for x, y in zip(xs, ys, strict=True)]
        for xs, ys in zip(x_m.tolist(), y_m.tolist(), strict=True)
    ]
    return points, (interpolated(rows.speed_mps, place) < SPEED_OF_SOUND_MPS).tolist()


def _missiles(params: CombatParams, state: CombatState, env: int, me: int) -> list[dict[str, Any]]:
    """Return the missiles aimed at this aircraft, each against its current line."""
    flying = state.missiles
    active, target = flying.active[:, :, env].tolist(), flying.target[:, :, env].tolist()
    sources = [
        (carrier, channel)
        for carrier in enemies_of(params, me)
        for channel in range(params.channels)
        if active[carrier][channel] and target[carrier][channel] == me
    ]
    if not sources:
        return []

    def gathered(field: Tensor) -> Tensor:
        return torch.stack([field[carrier, channel, env] for carrier, channel in sources]).cpu()

    age_s = gathered(flying.age_ticks).float() * params.dt_s
    shot = Shot(Motion(*map(gathered, flying.motion)), age_s)  # fields (M,)
    line = current_line(params.fighter, steered(state, env, me))
    chases = _chases(params, shot, line)
    return [
        {"carrier": carrier, "target": me} | _path(params, chases, index)
        for index, (carrier, _) in enumerate(sources)
    ]


def _chases(params: CombatParams, shot: Shot, line: Line) -> list[Chase]:
    """Simulate the chases (M,) arc by arc, until all have ended."""
    chases = [begun(params, shot, line)]
    for _ in range(_MOST_ARCS):
        chase = chases[-1]
        receding = (chase.time_s - chase.closest.time_s > _RECEDING_S) & (
            chase.shot.age_s > params.burn_time_s
        )
        over = ~chase.alive | (chase.closest.miss_m < params.hit_radius_m) | receding
        if bool(over.all()):
            break
        longest_s = arc_s(chase, _PART_OF_TIME_TO_GO, _LONGEST_ARC_S)
        chases.append(pursued(params, chase, line, longest_s))
    return chases


def _path(params: CombatParams, chases: list[Chase], index: int) -> dict[str, Any]:
    """Return the path of one missile, from now to its closest point."""
    miss_m, end_s, _ = (field[index].item() for field in chases[-1].closest)
    points: list[Point] = []
    speeds: list[float] = []
    for chase in chases:
        missile, time_s = chase.shot.motion, chase.time_s[index].item()
        if points and time_s > end_s:
            break
        x_m, y_m = missile.x_m[index].item(), missile.y_m[index].item()
        points.append([round(x_m), round(y_m), _time(time_s)])
        speeds.append(missile.speed_mps[index].item())
    return {
        "line": points,
        "no_threat_from": _no_threat_from(speeds),
        "miss_m": round(miss_m),
        "time_s": _time(end_s),
        "hits": miss_m < params.hit_radius_m,
    }


def _no_threat_from(speeds_mps: list[float]) -> int | None:
    """Return the index of the first point below the speed of sound after one above it."""
    been_fast = False
    for index, speed_mps in enumerate(speeds_mps):
        if been_fast and speed_mps < SPEED_OF_SOUND_MPS:
            return index
        been_fast = been_fast or speed_mps >= SPEED_OF_SOUND_MPS
    return None


def _time(time_s: float) -> float:
    return round(round(time_s / 0.05) * 0.05, 2)


# ---- the picture -----------------------------------------------------------------------------------

_COLOURS = ("#7b3294", "#2166ac", "#1b9e77", "#d95f02")  # one per time, on both graphs
_STYLES = {"left": "-", "right": "-", "current": (0, (4, 3))}
_WORDS = {"left": "left", "right": "right", "current": "straight on"}
_BEYOND = 12  # points from the end of a line to its label
_INCHES, _DPI, _TITLE_COLUMNS = (8.0, 6.0), 100, 80


def write_png(
    path: Path,
    params: CombatParams,
    own: Steered,
    other: Steered,
    *,
    critical_s: float,
    title: str,
    names: tuple[str, str],
) -> None:
    """Draw the reach of the enemy's missile at four times until the critical one, and the escapes until then.

    The view is from above. A dot outside the outline of its colour is out of reach at that time.
    """
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=_INCHES, dpi=_DPI)
    axes = figure.add_subplot()
    times_s = _four_times(critical_s)
    shapes, _ = outlines(reach_table(params), other.motion, times_s)
    for time_s, shape, colour in zip(times_s, shapes, _COLOURS, strict=True):
        x_km, y_km = _km(shape)
        axes.fill(x_km, y_km, color=colour, alpha=0.05)
        axes.plot(x_km, y_km, color=colour, lw=1.2, label=f"in reach after {time_s:g} s")
    seconds = range(math.ceil(times_s[-1]) + 1)
    paths = line_points(params, own, other.motion, [float(second) for second in seconds])
    dots = line_points(params, own, other.motion, times_s)
    for name, style in _STYLES.items():
        axes.plot(*_km(paths[name]), color="#333333", lw=1.2, ls=style)
        for x, y, colour in zip(*_km(dots[name]), _COLOURS, strict=True):
            axes.plot(x, y, "o", ms=7, mfc=colour, mec="white", mew=0.8)
        _label_end(axes, _WORDS[name], *_km(paths[name]))
    for craft, name in zip((own, other), names, strict=True):
        _draw_aircraft(axes, craft, name)
    axes.margins(0.12)  # room for the labels
    axes.set_aspect("equal")
    axes.set_xlabel("km")
    axes.set_ylabel("km")
    axes.grid(alpha=0.25)
    axes.legend(loc="best", fontsize=8)
    axes.set_title(textwrap.fill(title, _TITLE_COLUMNS), fontsize=9)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", bbox_inches="tight")


def _four_times(critical_s: float) -> list[float]:
    """Return the quarters of the time until the margin is smallest, in steps of the table."""
    steps = max(round(critical_s / TIME_STEP_S), len(_COLOURS))
    return [TIME_STEP_S * round(steps * part / 4) for part in (1, 2, 3, 4)]


def _km(points: list[list[float]]) -> tuple[list[float], list[float]]:
    return [point[0] / 1e3 for point in points], [point[1] / 1e3 for point in points]


def _label_end(axes: Any, text: str, x_km: list[float], y_km: list[float]) -> None:
    """Write a label beyond the end of a line, clear of the line."""
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
