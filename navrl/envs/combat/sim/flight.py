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


class _Largest(NamedTuple):
    """How large the arguments of the series in `fly` become."""

    growth: float  # (a dt)^2
    slowdown: float  # w
    half_turn: float


_USABLE = _Largest(growth=0.02, slowdown=0.5, half_turn=0.25)


def _largest(body: Body, dt_s: float) -> _Largest:
    top_speed_mps = max((body.thrust_mps2 / body.drag) ** 0.5, 500.0)
    growth = body.thrust_mps2 * body.full_rudder_drag * dt_s**2
    slowdown = growth + body.full_rudder_drag * top_speed_mps * dt_s
    return _Largest(growth, slowdown, top_speed_mps * dt_s / (2.0 * body.turn_radius_m))


def check_step(body: Body, dt_s: float) -> None:
    """Refuse a step beyond which the series in `fly` are no longer exact in float32."""
    if dt_s <= 0.0 or any(a > b for a, b in zip(_largest(body, dt_s), _USABLE, strict=True)):
        raise ValueError(
            f"physics step of {dt_s} s is not usable for {body}; expected a positive step, shorter "
            "for more thrust or a smaller turn radius; change env.sim.tick_s"
        )


def fly(
    body: Body,
    motion: Motion,
    rudder: Tensor,
    thrust_mps2: Tensor,
    dt_s: float | Tensor,
    free: Tensor | None = None,
) -> Motion:
    """The motion after dt_s of constant rudder and thrust; who is not `free` stays to the last bit.

    With a = sqrt(T c):  w = cosh(a dt) - 1 + c v sinh(a dt) / a  gives the path log1p(w) / c and, through
    its derivative, the speed. All functions are series that check_step keeps exact in float32: no square
    root, so T = 0 needs no case of its own, and one division.
    """
    largest = _USABLE if isinstance(dt_s, Tensor) else _largest(body, dt_s)
    speed = motion.speed_mps
    rudder = _held(body, rudder, speed)
    c = body.drag + (body.induced / body.turn_radius_m**2) * (rudder * rudder)
    growth_over_c = thrust_mps2 * (dt_s * dt_s)
    growth = growth_over_c * c
    sinh_over_a = dt_s * _series(growth, largest.growth, (1.0, 1.0 / 6, 1.0 / 120))
    w_over_c = (
        growth_over_c * _series(growth, largest.growth, (1.0 / 2, 1.0 / 24)) + speed * sinh_over_a
    )
    w = c * w_over_c
    inverse = 1.0 / ((1.0 + w) * (1.0 + 0.5 * w))
    half = (1.0 + w) * inverse  # 2 / (2 + w)
    z = (0.5 * w) * half  # log1p(w) = 2 atanh(w / (2 + w))
    largest_square = (largest.slowdown / (2.0 + largest.slowdown)) ** 2
    atanh = _series(z * z, largest_square, (1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7))
    path_m = w_over_c * half * atanh
    gain = sinh_over_a * (thrust_mps2 - (c * speed) * speed) * ((1.0 + 0.5 * w) * inverse)
    if free is not None:  # two selects here instead of one for every field of the outcome
        path_m, gain = torch.where(free, path_m, 0.0), torch.where(free, gain, 0.0)
    half_turn = rudder * (0.5 / body.turn_radius_m) * path_m
    return _along_arc(motion, half_turn, largest.half_turn, path_m)._replace(speed_mps=speed + gain)


def _along_arc(motion: Motion, half_turn: Tensor, largest: float, path_m: Tensor) -> Motion:
    """Place and heading at the end of an arc of this length that turns by twice half_turn."""
    square, largest = half_turn * half_turn, largest * largest
    sinc = _series(square, largest, (1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040))
    cos_h = _series(square, largest, (1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720))
    sin_h = half_turn * sinc
    chord_m = path_m * sinc
    cos_mid = motion.cos_heading * cos_h - motion.sin_heading * sin_h
    sin_mid = motion.sin_heading * cos_h + motion.cos_heading * sin_h
    # The old heading mirrored at that of the chord: cheaper than to turn it once more.
    return motion._replace(
        x_m=motion.x_m + chord_m * cos_mid,
        y_m=motion.y_m + chord_m * sin_mid,
        cos_heading=(2.0 * cos_h) * cos_mid - motion.cos_heading,
        sin_heading=(2.0 * cos_h) * sin_mid - motion.sin_heading,
    )


_TELLING = 1e-8  # of 1, in float32


def _series(x: Tensor, largest: float, coefficients: tuple[float, ...]) -> Tensor:
    """The power series in x, of which it takes what float32 can tell for x up to largest."""
    telling = [c for power, c in enumerate(coefficients) if abs(c) * largest**power > _TELLING]
    value: Tensor | float = telling[-1]
    for coefficient in reversed(telling[:-1]):
        value = coefficient + x * value
    return value if isinstance(value, Tensor) else torch.full_like(x, value)


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
