"""Fights of simple pilots, one against one and in teams."""

import functools
import math

import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import decided
from tests.envs.combat.sim.duels import opening, orders, shipped_params

FIRE_RANGE_M = 19000.0


def heading_error(motion, me, other, offset_rad=0.0):
    """Return the bearing of `other` off the nose of `me`, plus an offset, in radians; left is positive."""
    line = math.atan2(
        float(motion.y_m[other, 0] - motion.y_m[me, 0]),
        float(motion.x_m[other, 0] - motion.x_m[me, 0]),
    )
    nose = math.atan2(float(motion.sin_heading[me, 0]), float(motion.cos_heading[me, 0]))
    return (line + offset_rad - nose + math.pi) % (2.0 * math.pi) - math.pi


def nearest_enemy(params, state, me):
    """Return index and distance of the nearest living enemy, else of the nearest one."""
    alive, motion = state.aircraft.alive[:, 0], state.aircraft.motion

    def key(other):
        dx, dy = motion.x_m[other] - motion.x_m[me], motion.y_m[other] - motion.y_m[me]
        return not alive[other], float(torch.hypot(dx, dy))

    others = [i for i, team in enumerate(params.teams) if team != params.teams[me]]
    return min(others, key=key), min(key(other)[1] for other in others)


def choice(params, state, me):
    """Return rudder and trigger: pursue, crank while the missile flies, fire in range."""
    enemy, range_m = nearest_enemy(params, state, me)
    flying = bool(state.missiles.active[me, :, 0].any())
    offset = (0.9 if me % 2 else -0.7) if flying else 0.0
    error = heading_error(state.aircraft.motion, me, enemy, offset)
    fire = range_m < FIRE_RANGE_M * (1.0 - 0.06 * (me % 3)) and abs(error) < 0.5 and not flying
    return max(-1.0, min(1.0, error / 0.35)), fire


def fight(params, state, decisions=200):
    """Play until the fight is decided; return states and events."""
    states, events = [state], []
    while len(events) < decisions and not bool(decided(params, state)):
        rudder, fire = zip(
            *(choice(params, state, me) for me in range(len(params.teams))), strict=True
        )
        state, happened = advance(params, state, orders(state, rudder=rudder, fire=fire))
        states.append(state)
        events.append(happened)
    return states, events


_COARSE = {"tick_s": 0.25}  # faster, and the pictures look the same


@functools.cache
def duel(**changes):
    """Play one against one from 38 km."""
    params = shipped_params(**_COARSE | changes)
    state = opening(params, [(-19000.0, -3000.0, 20.0, 300.0)], [(19000.0, 2000.0, 165.0, 260.0)])
    return params, *fight(params, state)


@functools.cache
def brawl(size=4, **changes):
    """Play two lines abreast from 40 km."""
    params = shipped_params(team_size=size, **{"channels": 2, "ammunition": 4} | _COARSE | changes)
    red = [[(-20000.0, 5000.0 * i - 7000.0, 5.0 * i - 8.0, 260.0 + 20.0 * i)] for i in range(size)]
    blue = [
        [(20000.0, 4000.0 * i - 6000.0, 175.0 + 6.0 * i, 330.0 - 15.0 * i)] for i in range(size)
    ]
    return params, *fight(params, opening(params, *red, *blue))
