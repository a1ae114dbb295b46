"""Fights of simple hand-made pilots, their records, and hand-drawn space-time graphs of them."""

import functools
import math

import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import decided
from tests.envs.combat.sim.duels import opening, orders, shipped_params

HORIZON_S = 20
FIRE_RANGE_M = 19000.0


def heading_error(motion, me, other, aside_rad=0.0):
    """How far left of the nose of `me` the direction to `other` (or aside of it) is, radians."""
    line = math.atan2(
        float(motion.y_m[other, 0] - motion.y_m[me, 0]),
        float(motion.x_m[other, 0] - motion.x_m[me, 0]),
    )
    nose = math.atan2(float(motion.sin_heading[me, 0]), float(motion.cos_heading[me, 0]))
    return (line + aside_rad - nose + math.pi) % (2.0 * math.pi) - math.pi


def nearest_enemy(params, state, me):
    """Index of the nearest enemy that lives, else of the nearest."""
    alive, motion = state.aircraft.alive[:, 0], state.aircraft.motion

    def key(other):
        dx, dy = motion.x_m[other] - motion.x_m[me], motion.y_m[other] - motion.y_m[me]
        return not alive[other], float(torch.hypot(dx, dy))

    others = [i for i, team in enumerate(params.teams) if team != params.teams[me]]
    return min(others, key=key), min(key(other)[1] for other in others)


def choice(params, state, me):
    """Rudder and trigger: pursue, crank while the missile flies, fire in range."""
    enemy, range_m = nearest_enemy(params, state, me)
    flying = bool(state.missiles.active[me, :, 0].any())
    aside = (0.9 if me % 2 else -0.7) if flying else 0.0
    error = heading_error(state.aircraft.motion, me, enemy, aside)
    fire = range_m < FIRE_RANGE_M * (1.0 - 0.06 * (me % 3)) and abs(error) < 0.5 and not flying
    return max(-1.0, min(1.0, error / 0.35)), fire


def fight(params, state, decisions=200):
    """States and events until it is decided."""
    states, events = [state], []
    while len(events) < decisions and not bool(decided(params, state)):
        rudder, fire = zip(
            *(choice(params, state, me) for me in range(len(params.teams))), strict=True
        )
        state, happened = advance(params, state, orders(state, rudder=rudder, fire=fire))
        states.append(state)
        events.append(happened)
    return states, events


_COARSE = {"tick_s": 0.25}  # quicker, and who looks at a fight does not see it


@functools.cache
def duel(**changes):
    """One against one from 38 km."""
    params = shipped_params(**_COARSE | changes)
    state = opening(params, [(-19000.0, -3000.0, 20.0, 300.0)], [(19000.0, 2000.0, 165.0, 260.0)])
    return params, *fight(params, state)


@functools.cache
def brawl(size=4, **changes):
    """Two lines abreast from 40 km."""
    params = shipped_params(team_size=size, **{"channels": 2, "ammunition": 4} | _COARSE | changes)
    red = [[(-20000.0, 5000.0 * i - 7000.0, 5.0 * i - 8.0, 260.0 + 20.0 * i)] for i in range(size)]
    blue = [
        [(20000.0, 4000.0 * i - 6000.0, 175.0 + 6.0 * i, 330.0 - 15.0 * i)] for i in range(size)
    ]
    return params, *fight(params, opening(params, *red, *blue))


# ---- hand-drawn graphs ------------------------------------------------------------------------------


def curve(x, y, heading, speed, rudder, turn_s, decimals=3):
    """Points [x, y, t] of a turn of `turn_s` seconds at constant speed, then straight on."""
    line = []
    for step in range(2 * HORIZON_S + 1):
        line.append([round(x, decimals), round(y, decimals), step / 2])
        heading += rudder * speed / 1000.0 * 0.5 if step / 2 < turn_s else 0.0
        x, y = x + speed * 0.5 * math.cos(heading), y + speed * 0.5 * math.sin(heading)
    return line


def sketch(params, state, env, me):
    """A space-time graph of the right form with plausible lines, without the real reach."""
    motion, flying = state.aircraft.motion, state.missiles
    enemy, range_m = nearest_enemy(params, state, me)

    def pose(bodies, *index):
        x, y, cos, sin, speed = (float(field[(*index, env)]) for field in bodies)
        return x, y, math.atan2(sin, cos), speed

    own, foe = pose(motion, me), pose(motion, enemy)
    away = heading_error(motion, me, enemy, math.pi)
    turn_s = {side: ((sign * away) % (2 * math.pi)) * 1000.0 / own[3] for side, sign in _SIGNS}
    angles = list(range(-180, 181, 10))
    times = [2.5 * step for step in range(1, 9)]
    slices, slow = [], []
    for time_s in times:
        radii = [
            foe[3] * time_s * (0.5 + 0.5 * math.cos(math.radians(a)) ** 2) + 22.0 * time_s**2
            for a in angles
        ]
        slices.append(
            [
                [
                    foe[0] + r * math.cos(foe[2] + math.radians(a)),
                    foe[1] + r * math.sin(foe[2] + math.radians(a)),
                ]
                for r, a in zip(radii, angles, strict=True)
            ]
        )
        slow.append([abs(a) > 150 and time_s > 15.0 for a in angles])
    missiles = []
    for carrier, channel in torch.nonzero(flying.active[..., env]).tolist():
        target = int(flying.target[carrier, channel, env])
        if me in (carrier, target):
            line = curve(*pose(flying.motion, carrier, channel), 0.05, 10.0)[:30]
            missiles.append(
                {"carrier": carrier, "target": target, "line": line, "no_threat_from": 24,
                 "miss_m": 900.0, "time_s": 14.5, "hits": carrier == 0}
            )  # fmt: skip
    margins = {
        "left_m": range_m - 15000.0, "right_m": range_m - 17000.0,
        "current_m": range_m - 21000.0, "critical_s": 17.0,
    }  # fmt: skip
    return {
        "me": me,
        "enemy": enemy,
        "lines": {
            "current": curve(*own, float(state.aircraft.rudder[me, env]), 99.0),
            **{side: curve(*own, sign, turn_s[side]) for side, sign in _SIGNS},
        },
        "cone": {"times": times, "angles_deg": angles, "slices": slices},
        "no_threat": slow,
        "missiles": missiles,
        "margins": margins,
        "attack": margins,
    }


_SIGNS = (("left", 1.0), ("right", -1.0))
