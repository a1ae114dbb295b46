"""Flight in the plane: the exact arc that a body flies under constant rudder and thrust.

Point mass of speed v and rudder u in [-1, 1]:  dv/dt = T - c(u) v^2,  curvature u / turn_radius,
c(u) = drag + induced (u / turn_radius)^2.  Integrated in closed form, so a step of 0.25 s and 25 steps
of 0.01 s end at the same place.
"""

from typing import NamedTuple

import torch
from torch import Tensor

GRAVITY_MPS2 = 9.8


class Body(NamedTuple):
    """What air and engine do to one kind of body."""

    terminal_speed_mps: float  # free-fall speed; sets the parasite drag
    turn_radius_m: float  # at full rudder, at any speed
    thrust_mps2: float  # at full throttle, per unit of mass
    lift_to_drag: float  # best ratio; sets the induced drag
    max_load_g: float | None  # of the structure; None: no limit

    @property
    def drag(self) -> float:
        """Parasite drag coefficient, 1/m."""
        return GRAVITY_MPS2 / self.terminal_speed_mps**2

    @property
    def induced(self) -> float:
        """Induced drag per squared curvature, m."""
        return 1.0 / (4.0 * self.drag * self.lift_to_drag**2)

    @property
    def full_rudder_drag(self) -> float:
        """Drag coefficient at full rudder, 1/m."""
        return self.drag + self.induced / self.turn_radius_m**2


class Motion(NamedTuple):
    """Where a body is and how it moves; any shape."""

    x_m: Tensor
    y_m: Tensor
    cos_heading: Tensor  # the unit vector of the velocity, so that no step needs an angle
    sin_heading: Tensor
    speed_mps: Tensor


def check_step(body: Body, dt_s: float) -> None:
    """Refuse a step beyond which the series in `fly` are no longer exact in float32."""
    top_speed_mps = max((body.thrust_mps2 / body.drag) ** 0.5, 500.0)
    growth = body.thrust_mps2 * body.full_rudder_drag * dt_s**2
    slowdown = growth + body.full_rudder_drag * top_speed_mps * dt_s
    half_turn = top_speed_mps * dt_s / (2.0 * body.turn_radius_m)
    if dt_s <= 0.0 or growth > 0.02 or slowdown > 0.5 or half_turn > 0.25:
        raise ValueError(
            f"physics step of {dt_s} s is not usable for {body}; expected a positive step, shorter "
            "for more thrust or a smaller turn radius; change env.sim.tick_s"
        )


def fly(
    body: Body, motion: Motion, rudder: Tensor, thrust_mps2: Tensor, dt_s: float | Tensor
) -> Motion:
    """The motion after dt_s of constant rudder and thrust.

    With a = sqrt(T c):  w = cosh(a dt) - 1 + c v sinh(a dt) / a  gives the path log1p(w) / c and, through
    its derivative, the speed. All functions are series that check_step keeps exact in float32: no square
    root, so T = 0 needs no case of its own, and one division.
    """
    speed = motion.speed_mps
    rudder = _held(body, rudder, speed)
    c = body.drag + (body.induced / body.turn_radius_m**2) * (rudder * rudder)
    g = thrust_mps2 * c * (dt_s * dt_s)
    sinh_over_a = dt_s + (dt_s / 6.0) * g * (1.0 + g * (1.0 / 20.0))
    w_over_c = thrust_mps2 * (dt_s * dt_s) * (0.5 + g * (1.0 / 24.0)) + speed * sinh_over_a
    w = c * w_over_c
    inverse = 1.0 / ((1.0 + w) * (2.0 + w))
    gain = speed + thrust_mps2 * (
        sinh_over_a + speed * c * (dt_s * dt_s) * (0.5 + g * (1.0 / 24.0))
    )
    half = (1.0 + w) * inverse  # 1 / (2 + w)
    z = w * half
    z = z * z
    # log1p(w) = 2 atanh(w / (2 + w))
    path_m = 2.0 * w_over_c * half * (1.0 + z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7))))
    half_turn = rudder * path_m * (0.5 / body.turn_radius_m)
    h = half_turn * half_turn
    sinc = 1.0 - h * (1.0 / 6 - h * (1.0 / 120 - h * (1.0 / 5040)))
    cos_h = 1.0 - h * (1.0 / 2 - h * (1.0 / 24 - h * (1.0 / 720)))
    sin_h = half_turn * sinc
    chord_m = path_m * sinc
    cos_mid = motion.cos_heading * cos_h - motion.sin_heading * sin_h
    sin_mid = motion.sin_heading * cos_h + motion.cos_heading * sin_h
    return Motion(
        x_m=motion.x_m + chord_m * cos_mid,
        y_m=motion.y_m + chord_m * sin_mid,
        cos_heading=cos_mid * cos_h - sin_mid * sin_h,
        sin_heading=sin_mid * cos_h + cos_mid * sin_h,
        speed_mps=gain * (2.0 + w) * inverse,
    )


def _held(body: Body, rudder: Tensor, speed_mps: Tensor) -> Tensor:
    """The rudder that the structure allows at this speed."""
    if body.max_load_g is None:
        return rudder
    limit = body.max_load_g * GRAVITY_MPS2 * body.turn_radius_m
    limit_here = limit / (speed_mps * speed_mps).clamp_min(1.0)
    return torch.minimum(torch.maximum(rudder, -limit_here), limit_here)


def renormalised(motion: Motion) -> Motion:
    """The same motion with a heading of unit length; thousands of rotations drift in float32."""
    scale = torch.rsqrt(motion.cos_heading**2 + motion.sin_heading**2)
    return motion._replace(
        cos_heading=motion.cos_heading * scale, sin_heading=motion.sin_heading * scale
    )
