"""Missiles: guidance law, swept hit test, launch."""

import math

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion

GUIDANCE_LAWS = ("proportional", "legacy_gain")
LEGACY_GAIN_S = 200.0 / math.pi  # rudder per rad/s of line-of-sight rate in the original system


def guidance(missile: Motion, target: Motion, gain: float, turn_radius_m: float) -> Tensor:
    """Rudder of true proportional navigation, from the positions before the tick."""
    turn, square = _line_of_sight_turn(missile, target)
    # One division for turn / square (the rate of the line of sight) and for 1 / speed.
    square_speed = square.clamp_min(1.0) * missile.speed_mps.clamp_min(1.0)
    return (turn * (gain * turn_radius_m) / square_speed).clamp(-1.0, 1.0)


def legacy_guidance(missile: Motion, target: Motion) -> Tensor:
    """The original's law: rudder in proportion to the line-of-sight rate, whatever the speed."""
    turn, square = _line_of_sight_turn(missile, target)
    return (LEGACY_GAIN_S * turn / square.clamp_min(1.0)).clamp(-1.0, 1.0)


def _line_of_sight_turn(missile: Motion, target: Motion) -> tuple[Tensor, Tensor]:
    """Cross product of relative position and velocity, and squared distance."""
    x, y = relative_position(missile, target)
    vx = target.speed_mps * target.cos_heading - missile.speed_mps * missile.cos_heading
    vy = target.speed_mps * target.sin_heading - missile.speed_mps * missile.sin_heading
    return x * vy - y * vx, x * x + y * y


def passed_within(
    radius_m: float, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]
) -> Tensor:
    """Whether the relative chord of one tick comes closer than radius_m to the target.

    Without a division: where the closest point lies between the ends it is the distance of the chord's
    line that counts, cross / length, else that of the nearer end.
    """
    reach = radius_m**2
    x, y = before
    dx, dy = after[0] - x, after[1] - y
    along, cross = -(x * dx + y * dy), x * dy - y * dx
    length_squared = dx * dx + dy * dy
    between = (along > 0.0) & (along < length_squared)
    crossed = between & (cross * cross < reach * length_squared)
    return crossed | (x * x + y * y < reach) | (after[0] ** 2 + after[1] ** 2 < reach)


def relative_position(missile: Motion, target: Motion) -> tuple[Tensor, Tensor]:
    """From missile to target, m."""
    return target.x_m - missile.x_m, target.y_m - missile.y_m


def launched_from(carrier: Motion, offset_m: float) -> Motion:
    """A missile leaves `offset_m` ahead of its carrier with the carrier's velocity."""
    return carrier._replace(
        x_m=carrier.x_m + offset_m * carrier.cos_heading,
        y_m=carrier.y_m + offset_m * carrier.sin_heading,
    )


def select(mask: Tensor, chosen: Motion, other: Motion) -> Motion:
    """Field by field: chosen where mask, else other."""
    return Motion(*(torch.where(mask, a, b) for a, b in zip(chosen, other, strict=True)))
