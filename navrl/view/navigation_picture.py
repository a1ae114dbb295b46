"""Pictures (PNG) and films (MP4) of a recorded trip: the world from above, and height over time."""

import importlib
import math
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.envs.navigation.sim.moving_obstacles import radius_m
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.view.figure import INCHES, new_figure, save_film, save_picture
from navrl.view.navigation_page import outcome
from navrl.view.navigation_recording import Box, Landscape, Mover, NavigationRecording, Point, Trip

_MAP, _STRIP, _BAR = (0.09, 0.27, 0.77, 0.64), (0.09, 0.07, 0.77, 0.13), (0.89, 0.27, 0.02, 0.64)
_ROOM_M = 2.0  # around the trip
_TALL_M = 6.0  # and more: the darkest
_SPEED = 1.0  # seconds of the trip per second of film
_CORNERS = 24  # of a circle
_STATIC, _MOVING, _SHIELD, _GOAL, _LIMIT = "Blues", "#f39c12", "#e0439a", "#1a9c6b", "#8e6bd1"


class _Moment(NamedTuple):
    position_m: Point
    speed_mps: float
    knot: int  # the one at or after it


def write_png(recorded: NavigationRecording, trip: Trip, path: Path, *, title: str) -> None:
    """Write the whole trip as one picture."""
    figure, picture = _sheet(recorded, trip, f"{title}\n{outcome(trip)}")
    picture.show(trip.time_s[-1])
    save_picture(figure, path)


def write_mp4(recorded: NavigationRecording, trip: Trip, path: Path, *, title: str) -> None:
    """Write the trip as a film in real time."""
    figure, picture = _sheet(recorded, trip, title)
    save_film(figure, path, end_s=trip.time_s[-1], speed=_SPEED, show=picture.show)


def _sheet(recorded: NavigationRecording, trip: Trip, title: str) -> tuple[Any, "_Picture"]:
    """Return a figure with everything that stays, and the artists that move."""
    figure = new_figure()
    axes, strip, bar = (figure.add_axes(place) for place in (_MAP, _STRIP, _BAR))
    _frame(axes, trip, title)
    _draw_landscape(axes, recorded.landscapes[trip.world])
    for (x, y, _), name, radius in (
        (trip.start, "start", 0.15),
        (trip.goal, "goal", recorded.params.goal_radius_m),
    ):
        axes.add_patch(_patch(x, y, radius, fill=False, ec=_GOAL, lw=2.0))
        top = (x, y + radius)
        axes.annotate(name, top, (0, 5), textcoords="offset points", ha="center", color=_GOAL)
    _draw_heights(strip, recorded.params, trip)
    picture = _Picture(axes, strip, recorded.params, trip)
    figure.colorbar(picture.path, cax=bar, label="speed, m/s")
    return figure, picture


def _frame(axes: Any, trip: Trip, title: str) -> None:
    """Set limits around the whole trip, with the same scale along both axes."""
    places = [*trip.position_m, trip.start, trip.goal]
    x_m, y_m = ([place[axis] for place in places] for axis in (0, 1))
    upright = _MAP[3] * INCHES[1] / (_MAP[2] * INCHES[0])
    wide_m, tall_m = (max(values) - min(values) + 2.0 * _ROOM_M for values in (x_m, y_m))
    half_m = max(wide_m, tall_m / upright) / 2.0
    for values, limit, share in ((x_m, axes.set_xlim, 1.0), (y_m, axes.set_ylim, upright)):
        middle = (min(values) + max(values)) / 2.0
        limit(middle - half_m * share, middle + half_m * share)
    axes.set_xlabel("m east")
    axes.set_ylabel("m north")
    axes.grid(alpha=0.2)
    axes.set_title(title, loc="left", fontsize=11)


def _draw_landscape(axes: Any, landscape: Landscape) -> None:
    """Draw the obstacles: the taller, the darker; dashed where they hang in the air."""
    collections = importlib.import_module("matplotlib.collections")
    shapes = [(_corners(box), box.bottom_m, box.top_m) for box in landscape.boxes]
    shapes += [
        (_circle(c.x_m, c.y_m, c.radius_m), c.bottom_m, c.top_m) for c in landscape.cylinders
    ]
    shapes.sort(key=lambda shape: shape[2])
    drawn = collections.PolyCollection(
        [outline for outline, _, _ in shapes],
        cmap=_STATIC,
        edgecolors="#33485c",
        linewidths=0.6,
        linestyles=["--" if bottom_m > 0.0 else "-" for _, bottom_m, _ in shapes],
    )
    drawn.set_array([top_m for _, _, top_m in shapes])
    drawn.set_clim(-1.0, _TALL_M)
    axes.add_collection(drawn)


def _draw_heights(strip: Any, params: NavigationParams, trip: Trip) -> None:
    """Draw height over time between floor and ceiling, tinted where the shield changed the action."""
    strip.plot(trip.time_s, [z for _, _, z in trip.position_m], color="#9db4d8", lw=1.2)
    for limit_m in (params.floor_m, params.ceiling_m):
        strip.axhline(limit_m, color=_LIMIT, lw=1.0, ls="--")
    for before, after, changed in zip(
        trip.time_s, trip.time_s[1:], trip.changed_mps[1:], strict=False
    ):
        if changed > 0.0:
            strip.axvspan(before, after, color=_SHIELD, alpha=0.25, lw=0)
    strip.set_xlim(0.0, trip.time_s[-1])
    strip.set_ylim(0.0, 1.1 * params.ceiling_m)
    strip.set_xlabel("s")
    strip.set_ylabel("height, m")


class _Picture:
    """The artists that change with time."""

    def __init__(self, axes: Any, strip: Any, params: NavigationParams, trip: Trip) -> None:
        collections = importlib.import_module("matplotlib.collections")
        self._trip = trip
        index = torch.arange(params.moving.count)
        self._radius_m = radius_m(params.moving, index).tolist()
        self._movers = collections.PolyCollection([], fc=f"{_MOVING}88", ec=_MOVING, lw=1.2)
        self._shield = collections.LineCollection([], colors=_SHIELD, linewidths=9.0, alpha=0.35)
        self.path = collections.LineCollection([], cmap="viridis", linewidths=2.4, capstyle="round")
        self.path.set_clim(0.0, params.speed_limit_mps)
        for drawn in (self._movers, self._shield, self.path):
            axes.add_collection(drawn)
        self._drone = _patch(0.0, 0.0, params.body_radius_m, fc="#ffffffaa", ec="black", lw=1.6)
        axes.add_patch(self._drone)
        (self._height,) = strip.plot([], [], color="#1f4e9c", ls="", marker="o", ms=5)
        self._clock = axes.text(0.985, 1.02, "", transform=axes.transAxes, ha="right", fontsize=11)

    def show(self, time_s: float) -> list[Any]:
        """Move all artists to where they are at this time, and return them, lowest first."""
        trip, now = self._trip, _moment(self._trip, time_s)
        knots = [*trip.position_m[: now.knot], now.position_m]
        lines = [[a[:2], b[:2]] for a, b in pairwise(knots)]
        self.path.set_segments(lines)
        self.path.set_array([math.hypot(*v) for v in trip.velocity_mps[1 : len(knots)]])
        self._shield.set_segments(_under_shield(knots, trip.changed_mps))
        self._movers.set_verts(
            [_circle(*_place(m, time_s), self._radius_m[m.which]) for m in trip.movers]
        )
        self._drone.center = now.position_m[:2]
        self._height.set_data([time_s], [now.position_m[2]])
        self._clock.set_text(f"{time_s:.1f} s")
        return [self._movers, self._shield, self.path, self._drone, self._height, self._clock]


def _under_shield(knots: list[Point], changed_mps: list[float]) -> list[list[tuple[float, ...]]]:
    """Return the parts of the path on which the shield changed the action, each as one line."""
    parts: list[list[tuple[float, ...]]] = []
    working = False
    for before, after, changed in zip(knots, knots[1:], changed_mps[1:], strict=False):
        if changed > 0.0 and not working:
            parts.append([before[:2]])
        working = changed > 0.0
        if working:
            parts[-1].append(after[:2])
    return parts


def _moment(trip: Trip, time_s: float) -> _Moment:
    """Return the drone's position; between two knots a straight line is enough for a picture."""
    after = min(max(bisect_left(trip.time_s, time_s), 1), len(trip.time_s) - 1)
    share = _share(trip.time_s, after, time_s)
    x, y, z = (
        a + (b - a) * share
        for a, b in zip(trip.position_m[after - 1], trip.position_m[after], strict=True)
    )
    return _Moment((x, y, z), math.hypot(*trip.velocity_mps[after]), after)


def _place(mover: Mover, time_s: float) -> tuple[float, float]:
    after = min(max(bisect_left(mover.time_s, time_s), 1), len(mover.time_s) - 1)
    share = _share(mover.time_s, after, time_s)
    x_m, y_m = (
        values[after - 1] + (values[after] - values[after - 1]) * share
        for values in (mover.x_m, mover.y_m)
    )
    return x_m, y_m


def _share(times_s: list[float], after: int, time_s: float) -> float:
    before_s, after_s = times_s[after - 1], times_s[after]
    return min(max((time_s - before_s) / (after_s - before_s), 0.0), 1.0)


def _corners(box: Box) -> list[tuple[float, float]]:
    cos, sin = math.cos(box.yaw_rad), math.sin(box.yaw_rad)
    ends = [(a * box.half_x_m, b * box.half_y_m) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    return [(box.x_m + x * cos - y * sin, box.y_m + x * sin + y * cos) for x, y in ends]


def _circle(x_m: float, y_m: float, radius: float) -> list[tuple[float, float]]:
    turns = [math.tau * corner / _CORNERS for corner in range(_CORNERS)]
    return [(x_m + radius * math.cos(turn), y_m + radius * math.sin(turn)) for turn in turns]


def _patch(x_m: float, y_m: float, radius: float, **style: Any) -> Any:
    circle = importlib.import_module("matplotlib.patches").Circle
    return circle((x_m, y_m), radius, **style)
