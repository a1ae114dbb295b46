"""The ego-centric observation by hand, and how it keeps still when there is nothing to see."""

import math

import pytest
import torch

from navrl.envs.combat.observations.ego import Ego
from tests.envs.combat.observations.pictures import random_state
from tests.envs.combat.sim.duels import opening, put_missile, shipped_params

OWN_MISSILE, INCOMING_MISSILE = slice(16, 24), slice(24, 32)


@pytest.fixture(params=[1, 2], ids=["1 channel", "2 channels"])
def params(request):
    return shipped_params(channels=request.param)


def observed(params, state, me=0):
    return Ego(spacetime=False).rows(params, state, me)["ego"]


def duel(params, enemy_xy=(3000.0, 4000.0)):
    """Flying east from the origin at 300 m/s, the enemy west at 200 m/s, a missile of each in the air.

    The own missile is 4 km south of the enemy and flies east, the enemy's is 2.5 km south and flies
    north; both sit in channel 0.
    """
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(*enemy_xy, 180.0, 200.0)])
    state = put_missile(state, 0, target=1, at=(3000.0, 0.0, 0.0, 600.0), age_ticks=200)
    state = put_missile(state, 1, target=0, at=(0.0, -2500.0, 90.0, 500.0), age_ticks=0)
    aircraft = state.aircraft._replace(
        rudder=torch.tensor([[-0.5], [0.25]]), rounds=torch.tensor([[4], [6]], dtype=torch.int32)
    )
    return state._replace(aircraft=aircraft, decision=torch.tensor([75], dtype=torch.int32))


def test_the_load_is_the_one_that_is_flown():
    loads = []
    for limit_g in (None, 4.0, 9.0):  # half rudder at 300 m/s: 4.592 g
        params = shipped_params(fighter=shipped_params().fighter._replace(max_load_g=limit_g))
        loads.append(observed(params, duel(params))[2].item())
    assert loads == pytest.approx([0.4592, 0.4, 0.4592], rel=1e-3)


def test_every_entry_by_hand(params):
    # A tick is 0.1 s, a full rack 6 rounds, an episode 300 decisions of 1 s, g = 9.8 m/s2.
    rows = observed(params, duel(params)).squeeze(-1).tolist()
    assert rows[:6] == pytest.approx(
        [
            300 / 400,
            -0.5,
            300**2 * 0.5 / (10 * 1000 * 9.8),  # g over ten
            4 / 6,
            float(params.channels == 2),  # one of the channels is taken
            1 - 75 / 300,
        ]
    )
    assert rows[6:16] == pytest.approx(
        [
            math.log(5000 / 10_000),  # 3-4-5 triangle
            5000 / 50_000,
            4 / 5,
            3 / 5,
            0.0,
            -1.0,  # head to head
            200 / 400,
            0.6 * 500 / 1000,  # 500 m/s westwards along a line whose eastern part is 0.6
            10 * 0.8 * 500 / 5000,
            1.0,
        ],
        abs=1e-6,
    )
    assert rows[OWN_MISSILE] == pytest.approx(
        [1.0, 20 / 80, 600 / 1000, 4000 / 50_000, -1.0, 0.0, 0.0, 60 / 60],  # does not close: 60 s
        abs=1e-6,
    )
    assert rows[INCOMING_MISSILE] == pytest.approx(
        [1.0, 0.0, 500 / 1000, 2500 / 50_000, -1.0, 0.0, 500 / 1000, (2500 / 500) / 60], abs=1e-6
    )


def test_no_missile_no_numbers(params):
    state = random_state(params)
    own_only = torch.zeros_like(state.missiles.active)
    own_only[0, 0] = True
    for active in (own_only, own_only.flip(0), torch.zeros_like(own_only)):
        rows = observed(params, state._replace(missiles=state.missiles._replace(active=active)))
        for block, carrier in ((OWN_MISSILE, 0), (INCOMING_MISSILE, 1)):
            flies = active[carrier].any(0)
            if carrier == 0:  # an own missile at a dead enemy is none
                flies = flies & state.aircraft.alive[1]
            assert torch.equal(rows[block][0], flies.double())
            assert (rows[block][:, ~flies] == 0.0).all()
            assert not flies.any() or (rows[block][1:, flies] != 0.0).any(1).all()


def test_the_dead_are_seen_as_dead(params):
    state = duel(params)
    alive = torch.tensor([[True], [False]])
    rows = observed(params, state._replace(aircraft=state.aircraft._replace(alive=alive)))
    assert rows[15].item() == 0.0
    assert (rows[OWN_MISSILE] == 0.0).all(), "a missile at the dead will not hit"


def test_an_unlimited_rack_stays_full():
    params = shipped_params(ammunition=None)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(9e3, 0.0, 180.0, 300.0)])
    assert observed(params, state)[3].item() == 1.0


def test_the_space_time_graph_comes_after_the_rest():
    params = shipped_params()
    state = duel(params)
    observation = Ego(spacetime=True)
    with pytest.raises(RuntimeError, match=r"no table; call prepare\(params, device\) before rows"):
        observation.rows(params, state, 0)
    observation.prepare(params, "cpu")
    # A missile slower than 200 m/s and without thrust ends at once: no line comes nearer than it is now.
    ending = (3e3, 0.0, 180.0, 150.0)
    state = put_missile(state, 1, target=0, at=ending, age_ticks=200)
    state = put_missile(state, 0, target=1, at=(3e3, 2e3, 0.0, 190.0), age_ticks=200)
    rows = observation.rows(params, state, 0)["ego"]
    assert len(rows) == 48
    assert torch.equal(rows[:32], observed(params, state, 0))
    assert rows[40:44].flatten().tolist() == pytest.approx([0.3, 0.3, 0.3, 0.15])
    assert rows[44:48].flatten().tolist() == pytest.approx([0.2, 0.2, 0.2, 0.19])
