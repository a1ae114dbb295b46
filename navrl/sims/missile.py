"""Missiles: guidance law, swept hit test, end of life."""

import torch
from torch import Tensor

from navrl.sims.flight import Motion


def guidance(missile: Motion, target: Motion, gain: float, turn_radius_m: float) -> Tensor:
    """Rudder of true proportional navigation, from the positions before the tick."""
    x, y = target.x_m - missile.x_m, target.y_m - missile.y_m
    vx = target.speed_mps * target.cos_heading - missile.speed_mps * missile.cos_heading
    vy = target.speed_mps * target.sin_heading - missile.speed_mps * missile.sin_heading
    line_of_sight_rate = (x * vy - y * vx) / (x * x + y * y).clamp_min(1.0)
    rudder = gain * turn_radius_m * line_of_sight_rate / missile.speed_mps.clamp_min(1.0)
    return rudder.clamp(-1.0, 1.0)


def swept_miss_squared(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> Tensor:
    """Squared least distance along the relative chord of one tick, m^2."""
    x, y = before
    dx, dy = after[0] - x, after[1] - y
    length_squared = (dx * dx + dy * dy).clamp_min(1e-12)
    closest = (-(x * dx + y * dy) / length_squared).clamp(0.0, 1.0)
    return (x + closest * dx) ** 2 + (y + closest * dy) ** 2


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
