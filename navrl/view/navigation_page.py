"""The replay page of drone navigation: its HTML and the data of its episodes."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from navrl.envs.navigation.sim.moving_obstacles import BLOCK_HEIGHT_M, is_column, radius_m
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.view.html import NAVIGATION, differenced, page
from navrl.view.navigation_recording import Landscape, Mover, NavigationRecording, Trip

CENTI = 100.0  # lengths in the page are in centimetres
MOST_SCANNED = 4_000_000  # ranges in a file; if there are more, only the chosen episode has a lidar
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_FREE = "."  # begins a sequence of beams that hit nothing; its length follows
_ENDINGS = {  # of one trip in words, and of several
    "success": ("goal reached", "reached the goal"),
    "collision_static": ("hit an obstacle", "hit an obstacle"),
    "collision_moving": ("hit by a moving obstacle", "hit by a moving obstacle"),
    "outside": ("left the space to fly in", "left the space to fly in"),
    "timeout": ("the time is up", "ran out of time"),
}


def navigation_page(
    recorded: NavigationRecording, chosen: int, *, title: str, subtitle: str
) -> str:
    """Return the replay as one HTML file that opens with the trip of index `chosen`."""
    return page(NAVIGATION, navigation_data(recorded, chosen, title=title, subtitle=subtitle))


def navigation_data(
    recorded: NavigationRecording, chosen: int, *, title: str, subtitle: str
) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    params, trips = recorded.params, recorded.trips
    affordable = sum(trip.ranges_m.numel() for trip in trips) <= MOST_SCANNED
    return {
        "title": title,
        "subtitle": subtitle,
        "params": _params(params),
        "chosen": chosen,
        "outcomes": [{"kind": kind, "label": many} for kind, (_, many) in _ENDINGS.items()],
        "landscapes": [_landscape(landscape) for landscape in recorded.landscapes],
        "movers": _kinds(params),
        "trips": [
            _trip(params, trip, scanned=affordable or index == chosen)
            for index, trip in enumerate(trips)
        ],
    }


def outcome(trip: Trip) -> str:
    """Return the outcome of a trip in words, such as 'Goal reached after 12.3 s'."""
    end_s = trip.time_s[-1]
    if trip.reached_s is None:
        away_m = math.dist(trip.position_m[-1], trip.goal)
        words = f"{_ENDINGS[trip.ended_by][0]} after {end_s:.1f} s, {away_m:.1f} m from the goal"
    else:
        words = f"{_ENDINGS['success'][0]} after {trip.reached_s:.1f} s"
        if trip.ended_by not in ("success", "timeout"):
            words += f", then {_ENDINGS[trip.ended_by][0]} after {end_s:.1f} s"
    return words[0].upper() + words[1:]


def _params(params: NavigationParams) -> dict[str, Any]:
    return {
        "bodyRadius": params.body_radius_m,
        "goalRadius": params.goal_radius_m,
        "floor": params.floor_m,
        "ceiling": params.ceiling_m,
        "sideLimit": params.side_limit_m,
        "speedLimit": params.speed_limit_mps,
        "nearCount": params.near_count,
        "nearRange": params.near_range_m,
        "lidarRange": params.lidar.range_m,
        "beams": params.lidar.beams,
        "elevations": [round(angle, 5) for angle in params.lidar.elevations_rad],
    }


def _kinds(params: NavigationParams) -> dict[str, Any]:
    """Return width and kind of the moving obstacles, by their index."""
    index = torch.arange(params.moving.count)
    return {
        "radius": [round(radius, 3) for radius in radius_m(params.moving, index).tolist()],
        "column": [int(column) for column in is_column(params.moving, index).tolist()],
        "halfHeight": 0.5 * BLOCK_HEIGHT_M,  # of a block; columns are taller than the world
    }


def _landscape(landscape: Landscape) -> dict[str, list[list[int]]]:
    """Return every obstacle in whole centimetres, and its yaw in thousandths of a radian."""
    return {
        "boxes": [
            [*_centi(box[:4]), round(1e3 * box.yaw_rad), *_centi(box[5:])]
            for box in landscape.boxes
        ],
        "cylinders": [_centi(cylinder) for cylinder in landscape.cylinders],
    }


def _trip(params: NavigationParams, trip: Trip, *, scanned: bool) -> dict[str, Any]:
    return {
        "number": trip.number,
        "world": trip.world,
        "start": _centi(trip.start),
        "goal": _centi(trip.goal),
        "ms": differenced([1e3 * time_s for time_s in trip.time_s]),
        **_axes("xyz", trip.position_m),
        **_axes(("vx", "vy", "vz"), trip.velocity_mps),
        "beam0": differenced(_unwound(trip.beam0_rad)),
        "clearance": differenced([CENTI * clearance_m for clearance_m in trip.clearance_m]),
        "changed": [round(CENTI * changed_mps) for changed_mps in trip.changed_mps],
        "scans": packed_ranges(trip.ranges_m, params.lidar.range_m) if scanned else None,
        "movers": [_mover(mover) for mover in trip.movers],
        "kind": trip.outcome,
        "endedBy": trip.ended_by,
        "reached": trip.reached_s,
        "outcome": outcome(trip),
    }


def _centi(values: Sequence[float]) -> list[int]:
    return [round(CENTI * value) for value in values]


def _axes(names: Sequence[str], points: Sequence[Sequence[float]]) -> dict[str, list[int]]:
    return {
        name: differenced([CENTI * value for value in values])
        for name, values in zip(names, zip(*points, strict=True), strict=True)
    }


def _mover(mover: Mover) -> list[Any]:
    """Return the index of the obstacle, then milliseconds and centimetres per knot."""
    return [
        mover.which,
        [round(1e3 * time_s) for time_s in mover.time_s],
        *(_centi(values) for values in mover[2:]),
    ]


def _unwound(angles_rad: Sequence[float]) -> list[float]:
    """Return thousandths of a radian without jumps of a whole turn."""
    found = [angles_rad[0]]
    for angle_rad in angles_rad[1:]:
        found.append(found[-1] + math.remainder(angle_rad - found[-1], math.tau))
    return [1e3 * angle_rad for angle_rad in found]


def packed_ranges(ranges_m: Tensor, range_m: float) -> str:
    """Return a character per range, ring after ring of every knot (K, beams, rings).

    A sequence of free beams takes two characters.
    """
    last = len(_DIGITS) - 1
    levels = torch.round(ranges_m.transpose(1, 2).flatten() * (last / range_m))
    levels = torch.where(ranges_m.transpose(1, 2).flatten() < range_m, levels, last + 1.0)
    values, lengths = torch.unique_consecutive(levels.to(torch.int64), return_counts=True)
    words = []
    for level, length in zip(values.tolist(), lengths.tolist(), strict=True):
        if level <= last:
            words.append(_DIGITS[level] * length)
            continue
        whole, rest = divmod(length, last)
        words.append((_FREE + _DIGITS[last]) * whole + (_FREE + _DIGITS[rest] if rest else ""))
    return "".join(words)
