"""Observations of the original system, for its policies.

Both are absolute, and unbounded because the plane is: positions in fractions of its battlefields, 5 and
50 km, and speeds in fractions of 400 m/s. New policies do better with `ego`.
"""

import math

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import aircraft, angle_rad, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState, enemies_of, select, sides
from navrl.envs.core.reductions import any_row

READS = CombatParams  # the constants that these observations need

_SPEED_MPS = 400.0
_RACK = 6  # missiles


class Warp21:
    """One against one with one missile each: places and velocities of both, and of the missiles.

    0 .. 6    own: x, y, velocity x, velocity y, cosine and sine of the heading, own missile in the air
    7 .. 12   enemy: the first six of these
    13 .. 16  own missile: x, y, velocity x, velocity y; those of its carrier while it is in the rack
    17 .. 20  enemy missile: the same
    """

    def __init__(self) -> None:
        self.leaves = {"warp21": (21,)}

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Raise if there are more aircraft or missiles than the layout has places for."""
        if params.team_size != 1 or params.channels != 1:
            raise ValueError(
                f"observation=warp21 with env.team_size = {params.team_size} and env.sim.channels = "
                f"{params.channels}; expected 1 and 1; change these or choose another observation"
            )

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """Return the leaf warp21 (21, N)."""
        (enemy,) = enemies_of(params, me)
        mine, theirs = aircraft(state, me), aircraft(state, enemy)
        rows = [
            *_place_and_velocity(mine),
            mine.cos_heading,
            mine.sin_heading,
            state.missiles.active[me, 0].float(),
            *_place_and_velocity(theirs),
            theirs.cos_heading,
            theirs.sin_heading,
            *_place_and_velocity(_missile_of(state, me)),
            *_place_and_velocity(_missile_of(state, enemy)),
        ]
        return {"warp21": torch.stack(rows)}


class Dict10:
    """Own place, and the nearest living enemy as seen from there.

    0 .. 5  own: x, y, heading (0 .. 1 for 0 .. 360 degrees), speed, missiles of 6, alive
    6 .. 9  enemy: distance, bearing off the own nose (-1 .. 1 for -180 .. 180 degrees), speed, alive
    """

    def __init__(self) -> None:
        self.leaves = {"dict10": (10,)}

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Accept any fight; a rack of more than 6 missiles, also an unlimited one, counts as full."""

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """Return the leaf dict10 (10, N)."""
        mine, enemy = aircraft(state, me), focal_enemy(params, state, me)
        view = look(mine, enemy)
        heading = angle_rad(mine.cos_heading, mine.sin_heading) * (0.5 / math.pi)
        bearing = angle_rad(view.cos_bearing, view.sin_bearing) * (1.0 / math.pi)
        enemies_alive = sides(params, state.aircraft.alive)[1 - params.teams[me]]
        rows = [
            mine.x_m / 50_000.0,
            mine.y_m / 50_000.0,
            torch.where(mine.sin_heading < 0.0, 1.0 - heading, heading),
            mine.speed_mps / _SPEED_MPS,
            state.aircraft.rounds[me].clamp_max(_RACK).float() / _RACK,
            state.aircraft.alive[me].float(),
            view.range_m / 50_000.0,
            torch.where(view.sin_bearing < 0.0, -bearing, bearing).clamp(-1.0, 1.0),
            enemy.speed_mps / _SPEED_MPS,
            any_row(enemies_alive).float(),
        ]
        return {"dict10": torch.stack(rows)}


def _missile_of(state: CombatState, carrier: int) -> Motion:
    """Return the motion of the only missile, or of its carrier while it is in the rack."""
    flying = state.missiles
    missile = Motion(*(field[carrier, 0] for field in flying.motion))
    return select(flying.active[carrier, 0], missile, aircraft(state, carrier))


def _place_and_velocity(motion: Motion) -> list[Tensor]:
    speed = motion.speed_mps / _SPEED_MPS
    return [
        motion.x_m / 5000.0,
        motion.y_m / 5000.0,
        speed * motion.cos_heading,
        speed * motion.sin_heading,
    ]
