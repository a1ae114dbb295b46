"""Pictures (PNG) and films (MP4) of a recorded fight, for slides and papers."""

import math
from bisect import bisect_left
from pathlib import Path
from typing import Any

from navrl.view.combat_page import Pilots, aircraft_names, outcome, side_labels
from navrl.view.combat_recording import Recording, Track
from navrl.view.figure import INCHES, arrow, new_figure, save_film, save_picture

_COLOURS = ("#e4572e", "#2e7dd1")  # as on the page, darker: this is on white
_THRUST_COLOUR = "#d99a00"
_COASTING = (0, (2, 2))  # dashes
_PIECES = 5  # of the drawn path between two knots
_SPEED = 4.0  # seconds of fight per second of film
_TRAIL_S = 60.0
_DOT_S = 10
_AXES = (0.08, 0.08, 0.89, 0.82)  # left, bottom, width, height, as parts of the figure


def write_png(recorded: Recording, path: Path, *, title: str, pilots: Pilots) -> None:
    """Write the whole fight as one picture."""
    figure, axes = _canvas(
        recorded, f"{title}\n{outcome(recorded)}; a dot every {_DOT_S} s", pilots
    )
    _Picture(axes, recorded).show(recorded.times_s[-1], trail_s=math.inf)
    for record in recorded.aircraft:
        dots = range(0, math.ceil(record.track.time_s[-1]), _DOT_S)
        x_km, y_km, _ = zip(*(position(record.track, t) for t in dots), strict=True)
        colour = _COLOURS[record.team]
        axes.plot(x_km, y_km, ls="", marker="o", ms=4, mfc="white", mec=colour)
        axes.plot(x_km[0], y_km[0], ls="", marker="o", ms=8, mfc="white", mec=colour)
    save_picture(figure, path)


def write_mp4(recorded: Recording, path: Path, *, title: str, pilots: Pilots) -> None:
    """Write the fight as a film; it runs faster the longer the fight is."""
    figure, axes = _canvas(recorded, title, pilots)
    picture = _Picture(axes, recorded)
    clock = axes.text(0.985, 1.02, "", transform=axes.transAxes, ha="right", fontsize=11)

    def show(time_s: float) -> list[Any]:
        picture.show(time_s, trail_s=_TRAIL_S)
        clock.set_text(f"{time_s:.1f} s")
        return [*picture.artists, clock]

    save_film(figure, path, end_s=recorded.times_s[-1], speed=_SPEED, show=show)


def _canvas(recorded: Recording, title: str, pilots: Pilots) -> tuple[Any, Any]:
    """Return a figure without a window, and axes in km around the whole fight."""
    figure = new_figure()
    axes = figure.add_axes(_AXES)
    tracks = [craft.track for craft in recorded.aircraft]
    tracks += [flight.track for flight in recorded.flights]
    x_km, y_km = ([v / 1e3 for track in tracks for v in getattr(track, f)] for f in ("x_m", "y_m"))
    upright = _AXES[3] * INCHES[1] / (_AXES[2] * INCHES[0])  # the same scale along both axes
    half_km = max(max(x_km) - min(x_km), (max(y_km) - min(y_km)) / upright) / 2.0 + 2.0
    for values, limit, share in ((x_km, axes.set_xlim, 1.0), (y_km, axes.set_ylim, upright)):
        middle = (min(values) + max(values)) / 2.0
        limit(middle - half_km * share, middle + half_km * share)
    axes.set_xlabel("km east")
    axes.set_ylabel("km north")
    axes.grid(alpha=0.25)
    axes.set_title(title, loc="left", fontsize=11)
    sides = [
        axes.plot([], [], color=colour, lw=3.0, label=label)[0]
        for colour, label in zip(_COLOURS, side_labels(pilots), strict=True)
    ]
    thrust = axes.plot([], [], color=_THRUST_COLOUR, lw=1.4, label="missile under thrust")
    coasting = axes.plot([], [], color="grey", lw=1.1, ls=_COASTING, label="missile coasting")
    axes.legend(handles=[*sides, *thrust, *coasting], loc="upper left", fontsize=10)
    return figure, axes


class _Picture:
    """The artists of one axes, moved from one time to the next."""

    def __init__(self, axes: Any, recorded: Recording) -> None:
        self._recorded = recorded
        self._trails, self._heads, self._names = [], [], []
        for record, name in zip(recorded.aircraft, aircraft_names(recorded), strict=True):
            colour = _COLOURS[record.team]
            self._trails += axes.plot([], [], color=colour, lw=1.8, solid_capstyle="round")
            self._heads += axes.plot([], [], color=colour, ms=16, ls="", mec="white", mew=0.7)
            self._names.append(
                axes.annotate(
                    *(name, (0.0, 0.0), (10, 8)),
                    textcoords="offset points",
                    color=colour,
                    fontsize=9,
                )
            )
        self._burning, self._coasting, self._ends = [], [], []
        for flight in recorded.flights:
            colour = _COLOURS[recorded.aircraft[flight.carrier].team]
            self._burning += axes.plot([], [], color=_THRUST_COLOUR, lw=1.4)
            self._coasting += axes.plot([], [], color=colour, lw=1.1, ls=_COASTING)
            self._ends += axes.plot([], [], color=colour, ls="", ms=9)

    @property
    def artists(self) -> list[Any]:
        """Return all artists, the lowest first."""
        below = [*self._trails, *self._burning, *self._coasting]
        return [*below, *self._ends, *self._heads, *self._names]

    def show(self, time_s: float, *, trail_s: float) -> None:
        """Move all artists to where they are at this time."""
        for index, record in enumerate(self._recorded.aircraft):
            dead = record.died_s is not None and time_s >= record.died_s
            x, y, heading_rad = position(record.track, time_s)
            self._trails[index].set_data(*_path(record.track, time_s - trail_s, time_s))
            self._heads[index].set_data([x], [y])
            self._heads[index].set_marker("X" if dead else arrow(heading_rad))
            self._names[index].xy = (x, y)
        for index, flight in enumerate(self._recorded.flights):
            track = flight.track
            burnout_s = track.time_s[0] + self._recorded.params.burn_time_s
            self._burning[index].set_data(*_path(track, track.time_s[0], min(time_s, burnout_s)))
            self._coasting[index].set_data(*_path(track, burnout_s, time_s))
            started, over = track.time_s[0] <= time_s, time_s >= track.time_s[-1]
            x, y, heading_rad = position(track, time_s)
            self._ends[index].set_data([x] if started else [], [y] if started else [])
            missed = over and flight.ending == "miss"
            self._ends[index].set_marker("x" if missed else arrow(heading_rad))


def position(track: Track, time_s: float) -> tuple[float, float, float]:
    """Return position (km) and heading (rad) on a cubic through the knots with their velocities."""
    after = min(max(bisect_left(track.time_s, time_s), 1), len(track.time_s) - 1)
    before = after - 1
    span_s = track.time_s[after] - track.time_s[before]
    share = min(max((time_s - track.time_s[before]) / span_s, 0.0), 1.0) if span_s > 0.0 else 1.0
    rest = 1.0 - share
    turn_rad = math.remainder(track.heading_rad[after] - track.heading_rad[before], math.tau)

    def cubic(values: list[float], part: Any) -> float:
        start, stop = (
            track.speed_mps[knot] * part(track.heading_rad[knot]) * span_s
            for knot in (before, after)
        )
        return (
            (1.0 + 2.0 * share) * rest**2 * values[before]
            + share * rest**2 * start
            + share**2 * (3.0 - 2.0 * share) * values[after]
            - share**2 * rest * stop
        )

    x_m, y_m = cubic(track.x_m, math.cos), cubic(track.y_m, math.sin)
    return x_m / 1e3, y_m / 1e3, track.heading_rad[before] + turn_rad * share


def _path(track: Track, from_s: float, to_s: float) -> tuple[list[float], list[float]]:
    """Return x and y (km) of the path between two times, empty before it begins."""
    from_s, to_s = max(from_s, track.time_s[0]), min(to_s, track.time_s[-1])
    if to_s <= from_s:
        return [], []
    inner = [
        a + (b - a) * piece / _PIECES
        for a, b in zip(track.time_s, track.time_s[1:], strict=False)
        for piece in range(_PIECES)
    ]
    points = [position(track, t) for t in (from_s, *(t for t in inner if from_s < t < to_s), to_s)]
    return [x for x, _, _ in points], [y for _, y, _ in points]
