"""The simulator does not know which aircraft is whose: exchanging them exchanges the fight."""

import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import Action, opening_state
from tests.envs.combat.sim.duels import shipped_params


def test_exchanging_the_aircraft_exchanges_the_fight_bit_for_bit():
    params = shipped_params()
    draw = torch.Generator().manual_seed(0)
    motion = random_opening(64, draw)
    state, mirror = (opening_state(params, m) for m in (motion, exchanged(motion)))
    for _ in range(60):
        rudder = torch.randint(-1, 2, (2, 64), generator=draw).float()
        fire = torch.rand(2, 64, generator=draw) < 0.3
        order = Action(rudder, torch.ones(2, 64), fire)
        state, _ = advance(params, state, order)
        mirror, _ = advance(params, mirror, Action(*(field.flip(0) for field in order[:3])))
    assert (~state.aircraft.alive).any()
    for one, other in zip(state.aircraft.motion, mirror.aircraft.motion, strict=True):
        assert torch.equal(one, other.flip(0))
    assert torch.equal(state.aircraft.alive, mirror.aircraft.alive.flip(0))
    assert torch.equal(state.missiles.active, mirror.missiles.active.flip(0))


def exchanged(motion):
    return Motion(*(field.flip(0) for field in motion))


def random_opening(num_envs, draw):
    """Both within 10 km of the middle, so that many shots hit."""
    x_m, y_m = 20e3 * torch.rand(2, 2, num_envs, generator=draw) - 10e3
    heading = 6.28 * torch.rand(2, num_envs, generator=draw)
    speed = 200.0 + 200.0 * torch.rand(2, num_envs, generator=draw)
    return Motion(x_m, y_m, heading.cos(), heading.sin(), speed)
