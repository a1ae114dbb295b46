"""Long arcs: the same flight as `flight.fly`, in forms that hold for minutes.

`fly` sums short series, which is cheaper and exact for one tick. Here exponentials and logarithms carry
any time, so that a whole manoeuvre is one call. Any float dtype; shapes broadcast; no load limit.
"""

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Body, Motion

_LEAST_GROWTH = 1e-6  # stands for no thrust: there sinh(z) / z is 1 in float32 and float64
_LEAST_THRUST_MPS2 = 1e-3  # stands for no thrust where it divides
_FLAT_TURN_RAD = 1e-2  # below it sin(h) / h is a series


def fly_far(
    body: Body, motion: Motion, rudder: Tensor, thrust_mps2: Tensor, time_s: Tensor
) -> Motion:
    """The motion after any time of constant rudder and thrust."""
    path_m, speed_mps = dash(motion.speed_mps, drag(body, rudder), thrust_mps2, time_s)
    h = rudder * path_m * (0.5 / body.turn_radius_m)
    sin_h, cos_h = torch.sin(h), torch.cos(h)
    flat = h.abs() < _FLAT_TURN_RAD
    chord_m = path_m * torch.where(flat, 1.0 - h * h * (1.0 / 6), sin_h / torch.where(flat, 1.0, h))
    cos_mid = motion.cos_heading * cos_h - motion.sin_heading * sin_h
    sin_mid = motion.sin_heading * cos_h + motion.cos_heading * sin_h
    return Motion(
        x_m=motion.x_m + chord_m * cos_mid,
        y_m=motion.y_m + chord_m * sin_mid,
        cos_heading=cos_mid * cos_h - sin_mid * sin_h,
        sin_heading=sin_mid * cos_h + cos_mid * sin_h,
        speed_mps=speed_mps,
    )


def fly_straight(body: Body, motion: Motion, thrust_mps2: Tensor, time_s: Tensor) -> Motion:
    """`fly_far` with rudder 0."""
    straight = torch.full_like(motion.speed_mps, body.drag)
    path_m, speed_mps = dash(motion.speed_mps, straight, thrust_mps2, time_s)
    return motion._replace(
        x_m=motion.x_m + path_m * motion.cos_heading,
        y_m=motion.y_m + path_m * motion.sin_heading,
        speed_mps=speed_mps,
    )


def time_to_fly_s(
    body: Body, speed_mps: Tensor, rudder: Tensor, thrust_mps2: float, path_m: Tensor
) -> Tensor:
    """How long an arc of this length takes."""
    thrust_mps2 = max(thrust_mps2, _LEAST_THRUST_MPS2)
    c = drag(body, rudder)
    growth = torch.expm1(c * path_m)  # E - 1
    ratio = speed_mps * torch.sqrt(c / thrust_mps2)
    # w - 1 of w = (E + sqrt(E^2 - 1 + ratio^2)) / (1 + ratio), without the cancellation of a short path
    square = growth * (growth + 2.0)
    excess = (growth + square / (torch.sqrt(square + ratio * ratio) + ratio)) / (1.0 + ratio)
    return torch.log1p(excess) / torch.sqrt(c * thrust_mps2)


def drag(body: Body, rudder: Tensor) -> Tensor:
    """The coefficient at this rudder, 1/m."""
    return body.drag + (body.induced / body.turn_radius_m**2) * (rudder * rudder)


def dash(
    speed_mps: Tensor, drag: Tensor, thrust_mps2: Tensor, time_s: Tensor
) -> tuple[Tensor, Tensor]:
    """Path and speed along the path, whichever way it bends."""
    z = (torch.sqrt(thrust_mps2 * drag) * time_s).clamp_min(_LEAST_GROWTH)
    growth = torch.expm1(z)
    shrunk = growth / (growth + 1.0)
    cosh_minus_1 = 0.5 * growth * shrunk
    stretched_s = time_s * (0.5 * (growth + shrunk) / z)  # t sinh(z) / z
    stretch = cosh_minus_1 + drag * speed_mps * stretched_s
    gained_mps = speed_mps * cosh_minus_1 + thrust_mps2 * stretched_s
    return torch.log1p(stretch) / drag, (speed_mps + gained_mps) / (1.0 + stretch)


def powered_dash(
    speed_mps: Tensor, drag: Tensor | float, thrust_mps2: Tensor, time_s: Tensor
) -> tuple[Tensor, Tensor]:
    """`dash` for who has thrust: half the arithmetic, and off by millimetres in float32."""
    rate = torch.sqrt(thrust_mps2 * drag)
    grown = torch.exp(rate * time_s)
    shrunk = 1.0 / grown
    cosh = 0.5 * (grown + shrunk)
    sinh_s = (grown - shrunk) * (0.5 / rate)
    stretch = cosh + drag * speed_mps * sinh_s
    speed_mps = (speed_mps * cosh + thrust_mps2 * sinh_s) / stretch
    return torch.log(stretch) * (1.0 / drag), speed_mps
