"""Transitions put together by hand, one env each."""

import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import Events, decided
from navrl.envs.core.rewards import Transition
from tests.envs.combat.sim.duels import opening, orders, put_missile, shipped_params

PARAMS, PAIRS = shipped_params(), shipped_params(team_size=2)
DISCOUNT = 0.97


def start():
    """The enemy 12 km ahead and 16 km to the left; its missile 6 km ahead, at 700 m/s against 300."""
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(12e3, 16e3, 180.0, 300.0)])
    return put_missile(state, 1, target=0, at=(6e3, 0.0, 180.0, 700.0), age_ticks=100)


def pairs():
    """Two against two: the second learner heads away, and a missile is 2 km from the first."""
    learners = [[(0.0, 0.0, 0.0, 300.0)], [(0.0, 4e3, 180.0, 300.0)]]
    enemies = [[(24e3, 7e3, 180.0, 300.0)], [(30e3, -40e3, 90.0, 250.0)]]
    state = opening(PAIRS, *learners, *enemies)
    state = put_missile(state, 2, target=0, at=(2e3, 0.0, 180.0, 700.0), age_ticks=100)
    return put_missile(state, 3, target=1, at=(-9e3, 4e3, 0.0, 600.0), age_ticks=100)


def params_of(state):
    """The constants that a hand-made state belongs to."""
    return PARAMS if len(state.aircraft.alive) == 2 else PAIRS


def transition(before, after, *, terminated=False, truncated=False, team=0, **happened):
    """A step; `happened` names events by one flag per aircraft."""
    never = [False] * len(after.aircraft.alive)
    flags = [torch.tensor(happened.pop(name, never)).unsqueeze(-1) for name in Events._fields]
    assert not happened
    over, cut = torch.tensor([terminated]), torch.tensor([truncated])
    return Transition(params_of(after), before, after, Events(*flags), over, cut, team)


def with_craft(state, **fields):
    """The state with other numbers per aircraft, such as alive or rounds."""
    changed = {
        name: torch.tensor(values, dtype=getattr(state.aircraft, name).dtype).unsqueeze(-1)
        for name, values in fields.items()
    }
    return state._replace(aircraft=state.aircraft._replace(**changed))


def episode(state, rudder, decisions):
    """Transitions until the fight is decided, or cut after so many decisions."""
    params = params_of(state)
    for number in range(1, decisions + 1):
        after, events = advance(params, state, orders(state, rudder=rudder))
        over = decided(params, after)
        cut = torch.tensor([number == decisions]) & ~over
        yield Transition(params, state, after, events, over, cut)
        if over.item():
            return
        state = after
