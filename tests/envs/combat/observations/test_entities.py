"""The set of all other aircraft: every column by hand, the order, and who is missing."""

import math

import pytest
import torch

from navrl.envs.combat.observations.ego import Ego
from navrl.envs.combat.observations.entities import Entities
from tests.envs.combat.observations.pictures import random_state
from tests.envs.combat.sim.duels import opening, put_missile, shipped_params


@pytest.fixture
def pairs():
    """Two against two; the first flies east from the origin at 300 m/s."""
    params = shipped_params(team_size=2)
    state = opening(
        params,
        [(0.0, 0.0, 0.0, 300.0)],
        [(0.0, 3000.0, 90.0, 200.0)],  # the mate, 3 km to the left, flies away
        [(3000.0, 4000.0, 180.0, 200.0)],
        [(-6000.0, -8000.0, -90.0, 250.0)],
    )
    state = put_missile(state, 0, target=3, at=(-1000.0, -900.0, 200.0, 700.0))
    state = put_missile(state, 2, target=0, at=(2000.0, 3000.0, 200.0, 700.0))
    state = put_missile(state, 3, target=1, at=(-2000.0, 1000.0, 20.0, 700.0))
    return params, state


def test_every_entry_by_hand(pairs):
    params, state = pairs
    rows = Entities(team_size=2).rows(params, state, 0)
    mate, near, far = rows["entities"].squeeze(-1).tolist()
    # Line of sight (0, 1), velocity relative to mine (-300, 200): opens at 200 m/s, turns at 0.1 rad/s.
    seen = [math.log(0.3), 0.06, 1.0, 0.0, 1.0, 0.0, 0.5, -0.2, 1.0]
    assert mate == pytest.approx([0.0, *seen, 0.0, 0.0, 1.0], abs=1e-6)
    # (0.6, 0.8) and (-500, 0): closes at 300 m/s, turns at 0.8 * 500 / 5000 rad/s; its missile is at me.
    seen = [math.log(0.5), 0.1, 0.8, 0.6, 0.0, -1.0, 0.5, 0.3, 0.8]
    assert near == pytest.approx([1.0, *seen, 0.0, 1.0, 0.0], abs=1e-6)
    # (-0.6, -0.8) and (-300, -250): opens at 180 + 200 m/s, turns at (150 - 240) / 10 000 rad/s.
    seen = [0.0, 0.2, -0.8, -0.6, -1.0, 0.0, 0.625, -0.38, -0.09]
    assert far == pytest.approx([1.0, *seen, 1.0, 0.0, 1.0], abs=1e-6)
    assert rows["entities_mask"].squeeze(-1).tolist() == [True, True, True]
    assert torch.equal(rows["ego"], Ego(spacetime=False).rows(params, state, 0)["ego"])


def test_the_dead_are_zeros_and_masked(pairs):
    params, state = pairs
    before = Entities(team_size=2).rows(params, state, 0)
    alive = torch.tensor([[1], [0], [1], [0]]).bool()
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    rows = Entities(team_size=2).rows(params, state, 0)
    assert rows["entities_mask"].squeeze(-1).tolist() == [False, True, False]
    assert (rows["entities"][[0, 2]] == 0.0).all()
    assert torch.equal(rows["entities"][1], before["entities"][1])  # the living are as they were


def test_mates_come_first_and_choice_j_is_enemy_j():
    params = shipped_params(team_size=3)
    state = random_state(params, count=20)
    x_m, y_m = state.aircraft.motion.x_m.tolist(), state.aircraft.motion.y_m.tolist()
    mates_and_enemies = (
        *([1, 2, 3, 4, 5], [0, 2, 3, 4, 5], [0, 1, 3, 4, 5]),
        *([4, 5, 0, 1, 2], [3, 5, 0, 1, 2], [3, 4, 0, 1, 2]),
    )
    for me, others in enumerate(mates_and_enemies):
        rows = Entities(team_size=3).rows(params, state, me)
        for place, other in enumerate(others):
            alive = state.aircraft.alive[other]
            assert torch.equal(rows["entities_mask"][place], alive)
            for env in alive.nonzero().flatten().tolist():
                range_m = math.hypot(x_m[me][env] - x_m[other][env], y_m[me][env] - y_m[other][env])
                found = rows["entities"][place, :, env]
                assert found[2].item() == pytest.approx(range_m / 50e3)
                assert found[0].item() == float((me < 3) != (other < 3))


def test_missiles_are_counted_by_whom_they_fly_at():
    params = shipped_params(team_size=3, channels=2)
    state = random_state(params, count=50)
    active, target = state.missiles.active.tolist(), state.missiles.target.tolist()

    def flies(carriers, at, env):
        return any(
            active[a][k][env] and target[a][k][env] == at for a in carriers for k in range(2)
        )

    for me, others in ((1, [0, 2, 3, 4, 5]), (5, [3, 4, 0, 1, 2])):
        found = Entities(team_size=3).rows(params, state, me)["entities"][:, 10:]
        for place, other in enumerate(others):
            for env in state.aircraft.alive[other].nonzero().flatten().tolist():
                expected = flies([me], other, env), flies([other], me, env)
                expected += (flies(range(6), other, env),)
                assert found[place, :, env].tolist() == [float(flag) for flag in expected]
