"""The reach of a missile, by its speed at the launch, the direction off the nose and the time.

Not the half ellipse whose reach abeam is half of that ahead: a missile turns early, while it is slow, and
comes much further abeam and behind. The ellipse calls places safe where a missile hits.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion, fly
from navrl.envs.combat.sim.geometry import angle_rad
from navrl.envs.combat.sim.missile import launched_from
from navrl.envs.combat.sim.params import CombatParams

LEAST_SPEED_MPS, SPEED_STEP_MPS, SPEEDS = 200.0, 20.0, 16  # 200 .. 500
MOST_SPEED_MPS = LEAST_SPEED_MPS + (SPEEDS - 1) * SPEED_STEP_MPS
ANGLE_STEP_RAD, ANGLES = math.radians(10.0), 19  # 0 .. 180 degrees
TIME_STEP_S, TIMES = 2.5, 24  # 2.5 .. 60

# The sweep: rudder min(1, strength exp(-t / decay)), 0 for the first strength. A turn costs least speed
# when it is hardest at first; arcs of constant rudder stay up to a third short of it behind the launcher.
_DECAYS_S = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
_STRENGTHS, _LEAST_STRENGTH, _MOST_STRENGTH = 64, 0.03, 60.0
_MOST_TURN_RAD = math.radians(340.0)  # beyond it a path circles
_MOMENT_S = 1e-6


class ReachTable(NamedTuple):
    """One row per time; columns are speeds x angles. Distances are from the place of the launch."""

    time_s: Tensor  # (T, 1)
    distance_m: Tensor  # (T, V A), 0 where no missile gets in that time
    speed_mps: Tensor  # (T, V A), of the missile that gets furthest

    def at(self, times_s: Sequence[float]) -> "ReachTable":
        """Return only these times, multiples of TIME_STEP_S."""
        rows = [round(time_s / TIME_STEP_S) - 1 for time_s in times_s]
        return ReachTable(*(torch.stack([field[row] for row in rows]) for field in self))


class Cell(NamedTuple):
    """The place of a launch speed and a direction in the table."""

    column: Tensor  # int64, the corner of least speed and least angle
    speed_part: Tensor  # 0 .. 1, of the way to the next speed
    angle_part: Tensor


class _Paths(NamedTuple):
    """The sweep at one time, every field (V, D, S): speeds, decays, strengths; float64."""

    motion: Motion
    turned_rad: Tensor
    alive: Tensor


@functools.cache
def reach_table(params: CombatParams, device: torch.device | str = "cpu") -> ReachTable:
    """Build the table of these missiles, once."""
    frontiers = [_frontier(paths) for paths in _sweep(params)]
    time_s = TIME_STEP_S * torch.arange(1, TIMES + 1).unsqueeze(-1)
    fields = (time_s, *(torch.stack(field) for field in zip(*frontiers, strict=True)))
    return ReachTable(*(field.to(device, torch.float32) for field in fields))


def cell(speed_mps: Tensor, cos_off_nose: Tensor, sin_off_nose: Tensor) -> Cell:
    """Return the place in the table; speeds beyond its edges count as the edge. Directions of any length."""
    speed = ((speed_mps - LEAST_SPEED_MPS) * (1.0 / SPEED_STEP_MPS)).clamp(0.0, SPEEDS - 1.0)
    angle = angle_rad(cos_off_nose, sin_off_nose) * (1.0 / ANGLE_STEP_RAD)
    row, column = speed.floor().clamp_max(SPEEDS - 2.0), angle.floor().clamp_max(ANGLES - 2.0)
    return Cell((row * ANGLES + column).long(), speed - row, angle - column)


def interpolated(rows: Tensor, place: Cell) -> Tensor:
    """Return the value (..., T, N) of a field (T, V A) at places (..., T, N)."""
    first = torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1) * rows.shape[1]
    flat, corner = rows.flatten(), first + place.column
    slow = torch.lerp(flat[corner], flat[corner + 1], place.angle_part)
    fast = torch.lerp(flat[corner + ANGLES], flat[corner + ANGLES + 1], place.angle_part)
    return torch.lerp(slow, fast, place.speed_part)


def _sweep(params: CombatParams) -> Iterator[_Paths]:
    """Yield the paths at every time of the table."""
    speed_mps = LEAST_SPEED_MPS + SPEED_STEP_MPS * torch.arange(SPEEDS, dtype=torch.float64)
    steps = torch.linspace(0.0, 1.0, _STRENGTHS - 1, dtype=torch.float64)
    strength = _LEAST_STRENGTH * (_MOST_STRENGTH / _LEAST_STRENGTH) ** steps
    strength = torch.cat([torch.zeros_like(strength[:1]), strength])
    decay_s = torch.tensor(_DECAYS_S, dtype=torch.float64)
    decay_s = decay_s[:, None]
    speed_mps = speed_mps[:, None, None].expand(SPEEDS, len(_DECAYS_S), _STRENGTHS)
    zero = torch.zeros_like(speed_mps)
    carrier = Motion(zero, zero, zero + 1.0, zero, speed_mps)
    motion = launched_from(carrier, params.launch_offset_m)
    paths = _Paths(motion, zero, zero == 0.0)
    ticks = math.ceil(TIME_STEP_S / params.tick_s - 1e-9)
    dt_s = TIME_STEP_S / ticks
    for tick in range(TIMES * ticks):
        rudder = (strength * torch.exp(-(tick + 0.5) * dt_s / decay_s)).clamp_max(1.0)
        paths = _flown(params, paths, rudder, tick * dt_s, dt_s)
        if (tick + 1) % ticks == 0:
            yield paths


def _flown(
    params: CombatParams, paths: _Paths, rudder: Tensor, age_s: float, dt_s: float
) -> _Paths:
    burning = age_s < params.burn_time_s - _MOMENT_S
    thrust_mps2 = torch.full_like(paths.turned_rad, params.missile.thrust_mps2 if burning else 0.0)
    rudder = rudder.expand_as(thrust_mps2)
    old, new = paths.motion, fly(params.missile, paths.motion, rudder, thrust_mps2, dt_s)
    sin = old.cos_heading * new.sin_heading - old.sin_heading * new.cos_heading
    cos = old.cos_heading * new.cos_heading + old.sin_heading * new.sin_heading
    age_s += dt_s
    alive = paths.alive & (age_s < params.max_missile_age_s + _MOMENT_S)
    if age_s > params.burn_time_s - _MOMENT_S:
        alive = alive & (new.speed_mps >= params.self_destruct_speed_mps)
    return _Paths(new, paths.turned_rad + torch.atan2(sin, cos), alive)


def _frontier(paths: _Paths) -> tuple[Tensor, Tensor]:
    """Return distance and speed (V A,) of the path that gets furthest in each direction."""
    x, y = paths.motion.x_m, paths.motion.y_m
    counts = paths.alive & (paths.turned_rad < _MOST_TURN_RAD)
    # A path that turns left, by less than a circle, is seen from the launch between 0 and its heading,
    # further round the stronger it turns: the directions of a row rise, until they count no more.
    seen_rad = torch.remainder(torch.atan2(y, x) + 1e-9, 2.0 * math.pi)
    seen_rad = torch.where(counts, seen_rad, 0.0).cummax(-1).values
    distance_m = torch.where(counts, torch.hypot(x, y), 0.0)
    wanted_rad = ANGLE_STEP_RAD * torch.arange(ANGLES, dtype=seen_rad.dtype)
    wanted_rad = wanted_rad.expand(*seen_rad.shape[:-1], ANGLES).contiguous()
    above = torch.searchsorted(seen_rad, wanted_rad, right=True)
    high = above.clamp(1, _STRENGTHS - 1)
    low_rad, high_rad = seen_rad.gather(-1, high - 1), seen_rad.gather(-1, high)
    part = ((wanted_rad - low_rad) / (high_rad - low_rad).clamp_min(1e-12)).clamp(0.0, 1.0)

    def there(field: Tensor) -> Tensor:
        return torch.lerp(field.gather(-1, high - 1), field.gather(-1, high), part)

    reached_m = torch.where(above < _STRENGTHS, there(distance_m), 0.0)  # (V, D, A)
    furthest = reached_m.max(1, keepdim=True)
    speed_mps = there(paths.motion.speed_mps).gather(1, furthest.indices)
    reached = furthest.values > 0.0
    return _widened(furthest.values, reached).flatten(), _widened(speed_mps, reached).flatten()


def _widened(field: Tensor, reached: Tensor) -> Tensor:
    """Extend the outermost direction by one step, so that interpolation errs to the far side."""
    inside = torch.where(reached, field, 0.0)
    before = torch.cat([inside[..., :1], inside[..., :-1]], -1)
    return torch.where(reached, field, before)
