"""Perceptions of one drone, put together by hand, and the result of a straight flight among discs."""

import math

import torch

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.planners.collision_prediction import CollisionPrediction
from navrl.envs.navigation.sim.lidar import Lidar

LIDAR = Lidar(range_m=4.0, beams=36, rings=4, ring_low_deg=-10.0, ring_high_deg=20.0)
LEVEL_RING = 1  # of -10, 0, 10 and 20 degrees
HORIZONS_S, RESPONSE_S, SPEEDS_MPS = (0.4, 1.0), 0.47, (0.667, 1.333, 2.0)  # of both shields


def prediction(**changes):
    """Looks two seconds ahead, for a drone that flies a command at once."""
    options = {
        "horizons_s": (2.0,),
        "response_s": 0.0,
        "static_radius_m": 0.45,
        "moving_margin_m": 0.5,
        "level_m": 0.4,
    }
    return CollisionPrediction(**(options | changes))


def sight(*, goal=(10.0, 0.0, 0.0), velocity=(0.0, 0.0, 0.0), beams=(), moving=()):
    """A drone 1.5 m above the origin, beam 0 along x; the goal is relative to it.

    `beams` are (beam, metres) of the level ring; `moving` are (offset, velocity, radius) of columns.
    """
    ranges = torch.full((36, 4, 1), LIDAR.range_m)
    for beam, range_m in beams:
        ranges[beam, LEVEL_RING] = range_m
    offset, speed, radius = torch.zeros(3, 5, 1), torch.zeros(3, 5, 1), torch.zeros(5, 1)
    present = torch.zeros(5, 1, dtype=torch.bool)
    for row, (place, motion, radius_m) in enumerate(moving):
        offset[:2, row, 0], speed[:2, row, 0] = torch.tensor(place), torch.tensor(motion)
        radius[row], present[row] = radius_m, True
    position = torch.tensor([[0.0], [0.0], [1.5]])
    return Perception(
        position=position,
        velocity=torch.tensor(velocity).unsqueeze(-1),
        acceleration=torch.zeros(3, 1),
        goal=position + torch.tensor(goal).unsqueeze(-1),
        heading=torch.tensor([[1.0], [0.0]]),
        ranges=ranges,
        near_offset=offset,
        near_velocity=speed,
        near_radius_m=radius,
        near_half_height_m=torch.full((5, 1), 2.5),
        near_upright=present,
        near_present=present,
    )


def closest_m(place, motion, velocity, time_s):
    """Return the least distance of a point with this velocity to the middle of a disc within the time."""
    x, y = place
    fast_x, fast_y = velocity[0] - motion[0], velocity[1] - motion[1]
    square = fast_x * fast_x + fast_y * fast_y
    when = 0.0 if square == 0.0 else (x * fast_x + y * fast_y) / square
    when = min(max(when, 0.0), time_s)
    return math.hypot(x - when * fast_x, y - when * fast_y)


def passed_m(scene, velocity, command):
    """Return the margin by which the mean velocities to the horizons pass all discs."""
    least = math.inf
    for horizon_s in HORIZONS_S:
        kept = RESPONSE_S / horizon_s * (1.0 - math.exp(-horizon_s / RESPONSE_S))
        mean = [(1.0 - kept) * c + kept * v for c, v in zip(command, velocity, strict=True)]
        for place, motion, radius in scene:
            least = min(least, closest_m(place, motion, mean, horizon_s) - radius)
    return least


def candidates(command):
    """Every velocity that may be flown instead."""
    turn = math.atan2(command[1], command[0])
    yield 0.0, 0.0
    for speed in SPEEDS_MPS:
        for number in range(24):
            angle = turn + 2.0 * math.pi * number / 24
            yield speed * math.cos(angle), speed * math.sin(angle)
