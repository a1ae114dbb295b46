"""Planar flight: the exact arc that an airframe flies under constant rudder and thrust.

Point mass of speed v and rudder u in [-1, 1]:  dv/dt = T - c(u) v^2,  curvature u / turn_radius,
c(u) = drag + induced (u / turn_radius)^2.  Integrated in closed form, so a step of 0.25 s and 25 steps
of 0.01 s end at the same place. `fly` sums short series, which is cheap and exact for one physics step;
`fly_far` uses exponentials and logarithms, which hold for minutes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

GRAVITY_MPS2 = 9.8


class Airframe(NamedTuple):
    """The constants of one kind of aircraft or missile."""

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
    """Position and velocity in the plane; any shape."""

    x_m: Tensor
    y_m: Tensor
    cos_heading: Tensor  # the unit vector of the velocity, so that no step needs an angle
    sin_heading: Tensor
    speed_mps: Tensor


def renormalised(motion: Motion) -> Motion:
    """Return the motion with a heading of unit length; thousands of rotations drift in float32."""
    scale = torch.rsqrt(motion.cos_heading**2 + motion.sin_heading**2)
    return motion._replace(
        cos_heading=motion.cos_heading * scale, sin_heading=motion.sin_heading * scale
    )


def drag(airframe: Airframe, rudder: Tensor) -> Tensor:
    """Return the drag coefficient at this rudder, 1/m."""
    return airframe.drag + (airframe.induced / airframe.turn_radius_m**2) * (rudder * rudder)


def rudder_limit(airframe: Airframe, speed_mps: Tensor) -> Tensor | None:
    """Return the rudder at which the structure's load limit is reached, may be above 1; None: no limit."""
    if airframe.max_load_g is None:
        return None
    limit = airframe.max_load_g * GRAVITY_MPS2 * airframe.turn_radius_m
    return limit / (speed_mps * speed_mps).clamp_min(1.0)


# ---- one physics step: short series ----------------------------------------------------------------


class _Largest(NamedTuple):
    """The largest arguments of the series in `fly`."""

    growth: float  # (a dt)^2
    slowdown: float  # w
    half_turn: float


_USABLE = _Largest(growth=0.02, slowdown=0.5, half_turn=0.25)
_RESOLUTION = 1e-8  # of 1, in float32


def check_step(airframe: Airframe, dt_s: float) -> None:
    """Raise if the step is too long for the series in `fly` to be exact in float32."""
    if dt_s <= 0.0 or any(a > b for a, b in zip(_largest(airframe, dt_s), _USABLE, strict=True)):
        raise ValueError(
            f"physics step of {dt_s} s is not usable for {airframe}; expected a positive step, shorter "
            "for more thrust or a smaller turn radius; change env.sim.tick_s"
        )


def _largest(airframe: Airframe, dt_s: float) -> _Largest:
    top_speed_mps = max((airframe.thrust_mps2 / airframe.drag) ** 0.5, 500.0)
    growth = airframe.thrust_mps2 * airframe.full_rudder_drag * dt_s**2
    slowdown = growth + airframe.full_rudder_drag * top_speed_mps * dt_s
    return _Largest(growth, slowdown, top_speed_mps * dt_s / (2.0 * airframe.turn_radius_m))


def fly(
    airframe: Airframe,
    motion: Motion,
    rudder: Tensor,
    thrust_mps2: Tensor,
    dt_s: float | Tensor,
    free: Tensor | None = None,
) -> Motion:
    """Return the motion after dt_s of constant rudder and thrust; unchanged bits where not `free`.

    With a = sqrt(T c):  w = cosh(a dt) - 1 + c v sinh(a dt) / a  gives the path log1p(w) / c and, through
    its derivative, the speed. All functions are series that check_step keeps exact in float32: no square
    root, so T = 0 needs no case of its own, and one division.
    """
    largest = _USABLE if isinstance(dt_s, Tensor) else _largest(airframe, dt_s)
    speed = motion.speed_mps
    limit = rudder_limit(airframe, speed)
    rudder = rudder if limit is None else torch.minimum(torch.maximum(rudder, -limit), limit)
    c = drag(airframe, rudder)
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
    half_turn = rudder * (0.5 / airframe.turn_radius_m) * path_m
    return _along_arc(motion, half_turn, largest.half_turn, path_m)._replace(speed_mps=speed + gain)


def _along_arc(motion: Motion, half_turn: Tensor, largest: float, path_m: Tensor) -> Motion:
    """Return place and heading at the end of an arc of this length that turns by twice half_turn."""
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


def _series(x: Tensor, largest: float, coefficients: tuple[float, ...]) -> Tensor:
    """Sum the power series in x, without the terms that float32 cannot resolve for x up to largest."""
    kept = [c for power, c in enumerate(coefficients) if abs(c) * largest**power > _RESOLUTION]
    value: Tensor | float = kept[-1]
    for coefficient in reversed(kept[:-1]):
        value = coefficient + x * value
    return value if isinstance(value, Tensor) else torch.full_like(x, value)


# ---- whole manoeuvres: any time, any float dtype, shapes broadcast, no load limit --------------------

_LEAST_GROWTH = 1e-6  # stands for no thrust: there sinh(z) / z is 1 in float32 and float64
_LEAST_THRUST_MPS2 = 1e-3  # stands for no thrust where it divides
_FLAT_TURN_RAD = 1e-2  # below it sin(h) / h is a series


def fly_far(
    airframe: Airframe, motion: Motion, rudder: Tensor, thrust_mps2: Tensor, time_s: Tensor
) -> Motion:
    """Return the motion after any time of constant rudder and thrust."""
    path_m, speed_mps = dash(motion.speed_mps, drag(airframe, rudder), thrust_mps2, time_s)
    h = rudder * path_m * (0.5 / airframe.turn_radius_m)
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


def fly_straight(airframe: Airframe, motion: Motion, thrust_mps2: Tensor, time_s: Tensor) -> Motion:
    """Return the motion of `fly_far` with rudder 0."""
    straight = torch.full_like(motion.speed_mps, airframe.drag)
    path_m, speed_mps = dash(motion.speed_mps, straight, thrust_mps2, time_s)
    return motion._replace(
        x_m=motion.x_m + path_m * motion.cos_heading,
        y_m=motion.y_m + path_m * motion.sin_heading,
        speed_mps=speed_mps,
    )


def time_to_fly_s(
    airframe: Airframe, speed_mps: Tensor, rudder: Tensor, thrust_mps2: float, path_m: Tensor
) -> Tensor:
    """Return the time that an arc of this length takes."""
    thrust_mps2 = max(thrust_mps2, _LEAST_THRUST_MPS2)
    c = drag(airframe, rudder)
    growth = torch.expm1(c * path_m)  # E - 1
    ratio = speed_mps * torch.sqrt(c / thrust_mps2)
    # w - 1 of w = (E + sqrt(E^2 - 1 + ratio^2)) / (1 + ratio), without the cancellation of a short path
    square = growth * (growth + 2.0)
    excess = (growth + square / (torch.sqrt(square + ratio * ratio) + ratio)) / (1.0 + ratio)
    return torch.log1p(excess) / torch.sqrt(c * thrust_mps2)


def dash(
    speed_mps: Tensor, drag: Tensor, thrust_mps2: Tensor, time_s: Tensor
) -> tuple[Tensor, Tensor]:
    """Return path and speed along the path, whichever way it bends."""
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
    """Return `dash` where there is thrust: half the arithmetic, and off by millimetres in float32."""
    rate = torch.sqrt(thrust_mps2 * drag)
    grown = torch.exp(rate * time_s)
    shrunk = 1.0 / grown
    cosh = 0.5 * (grown + shrunk)
    sinh_s = (grown - shrunk) * (0.5 / rate)
    stretch = cosh + drag * speed_mps * sinh_s
    speed_mps = (speed_mps * cosh + thrust_mps2 * sinh_s) / stretch
    return torch.log(stretch) * (1.0 / drag), speed_mps
