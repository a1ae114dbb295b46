"""Trips of drones put together by hand: a circle at constant speed, among a few obstacles."""

import functools
import math

import torch

from navrl.config.compose import build, compose
from navrl.view.navigation_recording import (
    Box,
    Cylinder,
    Landscape,
    Mover,
    NavigationRecording,
    Trip,
)

RADIUS_M, SPEED_MPS, MIDDLE_M, SWING_M = 8.0, 1.6, 1.5, 0.6
TURN_RADPS = SPEED_MPS / RADIUS_M
KINDS = ("success", "collision_static", "collision_moving", "outside", "timeout")


@functools.cache
def shipped_params(*changes):
    """The constants of conf/env/navigation.yaml, with changes such as "frame=frozen"."""
    overrides = [f"env.sim.{change}" for change in changes]
    return build(compose("train", ["env=navigation", *overrides]).env.sim)


def place(time_s):
    """Return the place of every drone: counter-clockwise around (0, 8), rising and sinking."""
    turn = TURN_RADPS * time_s
    height_m = MIDDLE_M + SWING_M * math.sin(turn)
    return RADIUS_M * math.sin(turn), RADIUS_M * (1.0 - math.cos(turn)), height_m


def velocity(time_s):
    turn = TURN_RADPS * time_s
    return (
        SPEED_MPS * math.cos(turn),
        SPEED_MPS * math.sin(turn),
        SWING_M * TURN_RADPS * math.cos(turn),
    )


def landscape(shift_m=0.0):
    """A pillar, a wall aslant, a low block, a floating one, a column and a floating disc."""
    return Landscape(
        boxes=[
            Box(3.0 + shift_m, 3.0, 0.4, 0.3, 0.0, 0.0, 5.0),
            Box(-2.0, 6.0 + shift_m, 1.5, 0.1, math.radians(30.0), 0.0, 3.0),
            Box(6.0, 9.0, 0.5, 0.5, 0.2, 0.0, 0.6),
            Box(1.0, 12.0, 0.6, 0.4, -0.4, 2.8, 4.0),
        ],
        cylinders=[Cylinder(-4.0, 2.0, 0.4, 0.0, 6.0), Cylinder(5.0, -2.0, 0.5, 1.2, 2.0)],
    )


def ranges(params, knots):
    """Beam b of ring r meets something after 1 + 0.05 b + 0.1 r metres; every third beam nothing."""
    beam = torch.arange(params.lidar.beams).float()[:, None]
    ring = torch.arange(params.lidar.rings).float()
    metres = torch.where(beam % 3 == 2, params.lidar.range_m, 1.0 + 0.05 * beam + 0.1 * ring)
    return metres.expand(knots, -1, -1)


def trip(params, number=0, *, kind="success", seconds=9.0, world=0, shield=True):
    """An episode of so many seconds; under the shield from 2 s to 3 s, if there is one."""
    times_s = [0.1 * knot for knot in range(round(10 * seconds) + 1)]
    stand = [times_s[0], times_s[-1]]
    return Trip(
        number=number,
        world=world,
        start=place(0.0),
        goal=place(seconds + 0.2 if kind == "success" else seconds + 6.0),
        time_s=times_s,
        position_m=[place(time_s) for time_s in times_s],
        velocity_mps=[velocity(time_s) for time_s in times_s],
        beam0_rad=[TURN_RADPS * time_s for time_s in times_s],
        ranges_m=ranges(params, len(times_s)),
        clearance_m=[1.0 + 0.5 * math.cos(time_s) for time_s in times_s],
        changed_mps=[0.5 if shield and 2.05 < time_s < 3.05 else 0.0 for time_s in times_s],
        movers=[
            Mover(2, stand, [0.0, 6.0], [5.0, 5.0], [1.5, 1.5]),  # a block, level
            Mover(30, stand, [2.0, 2.0], [9.0, 3.0], [3.9, 3.9]),  # a block, above
            Mover(79, [0.0, 4.0, seconds], [-3.0, 1.0, 1.0], [1.0, 1.0, 5.0], [2.5] * 3),
        ],
        outcome=kind,
        ended_by=kind,
        reached_s=seconds if kind == "success" else None,
    )


def recorded(count=12, *, shield=True, params=None):
    """Episodes 5, 6, ... that end in every way, in two worlds, of different lengths."""
    params = params or shipped_params()
    trips = [
        trip(
            params,
            5 + index,
            kind=KINDS[index % len(KINDS)],
            seconds=9.0 if index == 0 else 3.0 + index % 7,
            world=index % 2,
            shield=shield,
        )
        for index in range(count)
    ]
    return NavigationRecording(params, [landscape(), landscape(2.0)], trips)
