"""Pictures for pilots, drawn by hand: aircraft 1 is the pilot, aircraft 0 its enemy."""

import importlib
import math

import torch

from navrl.envs.combat.sim.advance import advance
from tests.envs.combat.sim.duels import (
    opening,
    options,
    orders,
    put_missile,
    read_yaml,
    shipped_params,
)
from tests.envs.playing import keys

PARAMS = shipped_params(tick_s=0.25)  # longer physics steps than a run has: the tests fly for hours
DEGREE = math.pi / 180.0
NAMES = (
    *("straight", "pursuit", "random", "crank_seed"),
    *("crank", "phase2", "phase3", "stg_rule"),
)


def pilot(name, params=PARAMS, **fixed):
    """The shipped pilot, with these thresholds pinned."""
    node = read_yaml(f"opponent/{name}.yaml")
    module, _, target = node["_target_"].rpartition(".")
    pinned = {key: (value, value) for key, value in fixed.items()}
    made = getattr(importlib.import_module(module), target)(**(options(node) | pinned))
    made.prepare(params, "cpu")
    return made


def picture(
    bearing=0.0, range_m=40e3, *, heading=30.0, aspect=180.0, speed=300.0, enemy_speed=300.0
):
    """The enemy at this bearing (degrees, left is positive), its nose `aspect` off the line to it.

    180 means that it flies straight at the pilot.
    """
    line = (heading + bearing) * DEGREE
    x_m, y_m = range_m * math.cos(line), range_m * math.sin(line)
    enemy = x_m, y_m, heading + bearing + aspect, enemy_speed
    return opening(PARAMS, [enemy], [(0.0, 0.0, heading, speed)])


def incoming(state, bearing, range_m, *, speed_mps=700.0, heading=30.0, age_s=15.0):
    """Add a missile of the enemy in the air that flies straight at the pilot."""
    line = (heading + bearing) * DEGREE
    at = range_m * math.cos(line), range_m * math.sin(line), heading + bearing + 180.0, speed_mps
    return put_missile(state, 0, target=1, at=at, age_ticks=round(age_s / PARAMS.dt_s))


def firing(state):
    """Add a missile of the pilot in the air, far from both."""
    return put_missile(state, 1, target=0, at=(-90e3, -90e3, 225.0, 900.0))


def unarmed(state, index):
    """Empty the rack."""
    rounds = state.aircraft.rounds.clone()
    rounds[index] = 0
    return state._replace(aircraft=state.aircraft._replace(rounds=rounds))


def command(opponent, state, memory=None):
    """Rudder, throttle and trigger of one env."""
    memory = opponent.initial(keys(1)) if memory is None else memory
    found, _ = opponent.act(PARAMS, state, 1, memory)
    return found.rudder.item(), found.throttle.item(), found.fire.item()


def flown(opponent, state, decisions, *, rudder=0.0, enemy_fires=()):
    """States and launches (A, N) of some decisions; the enemy holds a rudder and fires at these."""
    count = state.decision.numel()
    memory = opponent.initial(keys(count))
    states, launches = [state], []
    for number in range(decisions):
        found, memory = opponent.act(PARAMS, state, 1, memory)
        held = torch.full_like(found.rudder, rudder)
        trigger = torch.full_like(found.fire, number in enemy_fires)
        chosen = orders(
            state,
            rudder=torch.stack([held, found.rudder]),
            throttle=torch.stack([torch.ones_like(held), found.throttle]),
            fire=torch.stack([trigger, found.fire]),
        )
        state, events = advance(PARAMS, state, chosen)
        states.append(state)
        launches.append(events.launched)
    return states, launches


def bearing_of_enemy(state):
    """Return the bearing of aircraft 0 off the nose of aircraft 1, degrees, first env."""
    motion = state.aircraft.motion
    x_m, y_m = (motion.x_m[0] - motion.x_m[1])[0].item(), (motion.y_m[0] - motion.y_m[1])[0].item()
    heading = math.atan2(motion.sin_heading[1, 0], motion.cos_heading[1, 0])
    return math.remainder(math.atan2(y_m, x_m) - heading, 2 * math.pi) / DEGREE
