"""Physics of the original system, for parity studies only: its integrator, guidance and point hit test.

Kept with its faults: Euler steps of the velocity vector add energy in turns, the line-of-sight rate is a
difference of two angles, and a fast missile can step over its target. Outcomes depend on the step, and a
missile that swings to and fro doubles its rounding errors, so that the last bits, which depend on the
number of envs here, decide where it is a minute later.
"""

import math

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Airframe, Motion, drag
from navrl.envs.combat.sim.geometry import relative_position

GAIN_S = 200.0 / math.pi  # rudder per rad/s of line-of-sight rate


def fly(
    airframe: Airframe, motion: Motion, rudder: Tensor, thrust_mps2: Tensor, dt_s: float
) -> Motion:
    """Take one Euler step: acceleration from the old velocity, position from the new one."""
    speed, cos, sin = motion.speed_mps, motion.cos_heading, motion.sin_heading
    along = thrust_mps2 - drag(airframe, rudder) * speed * speed
    across = speed * speed * rudder / airframe.turn_radius_m
    vx = speed * cos + (along * cos - across * sin) * dt_s
    vy = speed * sin + (along * sin + across * cos) * dt_s
    after = torch.sqrt(vx * vx + vy * vy).clamp_min(1e-6)
    return Motion(
        x_m=motion.x_m + vx * dt_s,
        y_m=motion.y_m + vy * dt_s,
        cos_heading=vx / after,
        sin_heading=vy / after,
        speed_mps=after,
    )


def line_of_sight_rad(missile: Motion, target: Motion) -> Tensor:
    """Return the direction from missile to target, -pi .. pi."""
    x, y = relative_position(missile, target)
    return torch.atan2(y, x)


def guidance(
    missile: Motion, target: Motion, before_rad: Tensor, dt_s: float
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return a rudder in proportion to the turn of the line of sight since the last tick, and that line."""
    now_rad = line_of_sight_rad(missile, target)
    turn = torch.remainder(now_rad - before_rad + math.pi, 2.0 * math.pi) - math.pi
    return (GAIN_S * turn / dt_s).clamp(-1.0, 1.0), (now_rad,)
