"""Fights put together by hand, for the tests of simulators, pilots and rewards."""

import math
from pathlib import Path

import torch
import yaml

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Airframe, Motion
from navrl.envs.combat.sim.state import Action, CombatParams, initial_state

_CONF = Path(__file__).resolve().parents[4] / "conf"


def read_yaml(name):
    """One file of conf/, without what Hydra would make of it."""
    return yaml.safe_load((_CONF / name).read_text())


def options(node):
    """The keyword arguments that a YAML node names."""
    return {key: value for key, value in node.items() if not key.startswith("_")}


def shipped_params(**changes):
    """The constants of conf/env/combat.yaml, with changes."""
    sim = options(read_yaml("env/combat.yaml")["sim"])
    sim["fighter"], sim["missile"] = (
        Airframe(**options(sim["fighter"])),
        Airframe(**options(sim["missile"])),
    )
    sim["team_size"] = 1
    return CombatParams(**(sim | changes)).checked()


def motion_of(*aircraft):
    """Motion (A, N) from one list of (x m, y m, heading in degrees, speed m/s) per aircraft."""
    table = torch.tensor(aircraft, dtype=torch.float64)  # (A, N, 4)
    x_m, y_m, heading, speed_mps = (field.contiguous() for field in table.unbind(-1))
    fields = (
        x_m,
        y_m,
        torch.cos(torch.deg2rad(heading)),
        torch.sin(torch.deg2rad(heading)),
        speed_mps,
    )
    return Motion(*(field.float() for field in fields))


def opening(params, *aircraft):
    """An opening from one list of (x, y, heading in degrees, speed) per aircraft."""
    return initial_state(params, motion_of(*aircraft))


def orders(state, rudder=0.0, throttle=1.0, fire=False):
    """An action from numbers, or one number per aircraft, or tensors (A, N)."""

    def spread(value, dtype):
        value = torch.as_tensor(value, dtype=dtype)
        value = value.unsqueeze(-1) if value.dim() == 1 else value
        return value.expand(state.aircraft.alive.shape).clone()

    return Action(
        spread(rudder, torch.float32), spread(throttle, torch.float32), spread(fire, torch.bool)
    )


def play(params, state, decisions, first=None, **constant):
    """The states and events of some decisions: once the orders `first`, then the constant ones."""
    states, events = [state], []
    for number in range(decisions):
        chosen = first if first is not None and number == 0 else constant
        state, happened = advance(params, state, orders(state, **chosen))
        states.append(state)
        events.append(happened)
    return states, events


def hits_on_fleeing_targets(shots):
    """Hit or not, for shots of (range m, speed, speed of the target, bearing of the shooter in degrees).

    Targets turn away at once and flee straight; then no missile that is slower catches them.
    """
    params = shipped_params(decision_s=0.5)
    state = opening(
        params,
        [(0.0, 0.0, 0.0, own) for _, own, _, _ in shots],
        [(range_m, 0.0, 180.0 - bearing, speed) for range_m, _, speed, bearing in shots],
    )
    hit = torch.zeros(len(shots), dtype=torch.bool)
    for number in range(140):  # 70 s
        motion = state.aircraft.motion
        away = torch.atan2(motion.y_m[1] - motion.y_m[0], motion.x_m[1] - motion.x_m[0])
        error = away - torch.atan2(motion.sin_heading[1], motion.cos_heading[1])
        error = torch.remainder(error + math.pi, 2 * math.pi) - math.pi
        rudder = torch.stack([0.0 * error, (error / math.radians(20.0)).clamp(-1.0, 1.0)])
        state, events = advance(params, state, orders(state, rudder, fire=[number == 0, False]))
        hit = hit | events.hit[0]
        faster = state.missiles.motion.speed_mps[0, 0] > state.aircraft.motion.speed_mps[1]
        if number >= 40 and not (state.missiles.active[0, 0] & faster).any():
            break  # after 20 s it has burnt out, and everybody has turned away
    return hit


def put_missile(state, carrier, *, channel=0, target, at, age_ticks=0):
    """The state with a missile at (x m, y m, heading in degrees, speed m/s), in every env."""
    x_m, y_m, heading, speed_mps = at
    heading = math.radians(heading)
    values = Motion(x_m, y_m, math.cos(heading), math.sin(heading), speed_mps)
    flying = state.missiles

    def placed(field, value):
        field = field.clone()
        field[carrier, channel] = value
        return field

    flying = flying._replace(
        motion=Motion(*(placed(f, v) for f, v in zip(flying.motion, values, strict=True))),
        active=placed(flying.active, True),
        age_ticks=placed(flying.age_ticks, age_ticks),
        target=placed(flying.target, target),
    )
    return state._replace(missiles=flying)


def env_rows(tree, rows):
    """The envs `rows` of a NamedTuple of tensors whose last axis is the env."""
    if isinstance(tree, torch.Tensor):
        return tree[..., rows].contiguous()
    if tree is None:
        return None
    found = [env_rows(field, rows) for field in tree]
    return tuple(found) if type(tree) is tuple else type(tree)(*found)


def leaves(tree):
    """Every tensor of a NamedTuple of tensors."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [leaf for field in tree for leaf in leaves(field)]


def same_bits(a, b):
    """Every tensor equal bit for bit."""
    return all(torch.equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))
