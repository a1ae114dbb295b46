"""N against N: shots fly at whom they were fired at, and the fight goes on until a side is dead."""

import itertools

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import decided, winner_sign
from tests.envs.combat.sim.duels import (
    opening,
    orders,
    play,
    put_missile,
    shipped_params,
)


def grid(params, spread_m=4e3):
    """Two columns of three, 12 km apart, that fly at each other."""
    red = [[(0.0, spread_m * n, 0.0, 300.0)] for n in (-1, 0, 1)]
    blue = [[(12e3, spread_m * n, 180.0, 300.0)] for n in (-1, 0, 1)]
    return opening(params, *red, *blue)


@pytest.mark.parametrize(("shooter", "place"), list(itertools.product((0, 5), range(3))))
def test_a_shot_flies_at_whom_it_was_fired_at(shooter, place):
    params = shipped_params(team_size=3)
    state = grid(params)
    target = place + (3 if shooter < 3 else 0)
    fire = [me == shooter for me in range(6)]
    requested = torch.full((6, 1), -1, dtype=torch.int32)
    requested[shooter] = place
    action = orders(state, fire=fire)._replace(target=requested)
    state, events = advance(params, state, action)
    assert events.launched[:, 0].tolist() == fire
    _, events = play(params, state, 20)
    killed = torch.stack([e.killed[:, 0] for e in events]).any(0).tolist()
    assert killed == [me == target for me in range(6)]
    hit = torch.stack([e.hit[:, 0] for e in events]).any(0).tolist()
    assert hit == fire


@pytest.mark.parametrize("requested", [None, -1, 0, 1])
def test_who_names_nobody_or_the_dead_fires_at_the_nearest_of_the_living(requested):
    params = shipped_params(team_size=3)
    # Of aircraft 0 the nearest enemies are 3, then 4, then 5; 3 and 4 are dead.
    state = grid(params)
    alive = torch.tensor([[True], [True], [True], [False], [False], [True]])
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    action = orders(state, fire=[True, False, False, False, False, True])
    if requested is not None:
        action = action._replace(target=torch.full((6, 1), requested, dtype=torch.int32))
    after, _ = advance(params, state, action)
    assert after.missiles.target[0, 0].item() == 5
    # The last aircraft of the other side names 0 or 1 too, which live, or the nearest, which is 2.
    expected = 2 if requested in (None, -1) else requested
    assert after.missiles.target[5, 0].item() == expected


def test_hits_on_several_in_one_tick_all_count():
    params = shipped_params(team_size=3, decision_s=0.1)
    state = grid(params)
    # 0 hits 3, 1 and 2 both hit 4, and 3, which dies, hits 1 in the same tick.
    for carrier, target in ((0, 3), (1, 4), (2, 4), (3, 1)):
        x_m, y_m, *_ = (field[target, 0].item() for field in state.aircraft.motion)
        at = (x_m + 60.0, y_m, 0.0, 500.0)
        state = put_missile(state, carrier, target=target, at=at)
    after, events = advance(params, state, orders(state))
    assert events.hit[:, 0].tolist() == [True, True, True, True, False, False]
    assert events.killed[:, 0].tolist() == [False, True, False, True, True, False]
    assert not events.missed.any()
    assert not events.defeated.any()
    assert not after.missiles.active.any()
    assert after.aircraft.alive[:, 0].tolist() == [True, False, True, False, False, True]


@pytest.mark.parametrize("retarget", [False, True])
def test_whom_a_missile_missed_is_settled_when_it_ends(retarget):
    # At 12 s of age a missile ends: that of 0 in the second tick, while its prey, 2, is alive. The one of 1
    # hits 2 later in the same decision, after (800 - 100) / 900 s or so.
    params = shipped_params(team_size=2, retarget=retarget, max_missile_age_s=12.0)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 4e3, 0.0, 300.0)]
    blue = [(12e3, 0.0, 90.0, 300.0)], [(30e3, 9e3, 90.0, 300.0)]
    state = put_missile(
        opening(params, *red, *blue), 0, target=2, at=(4e3, 0.0, 0.0, 900.0), age_ticks=118
    )
    state = put_missile(state, 1, target=2, at=(11.2e3, 150.0, 0.0, 900.0), age_ticks=80)
    after, events = advance(params, state, orders(state))
    assert events.killed[:, 0].tolist() == [False, False, True, False]
    assert events.missed[:, 0].tolist() == [True, False, False, False]
    assert events.defeated[:, 0].tolist() == [False, False, True, False]
    assert after.missiles.target[:2, 0, 0].tolist() == [2, 2]


def test_the_fight_goes_on_until_a_whole_side_is_dead():
    params = shipped_params(team_size=3)
    state = grid(params)
    for alive in itertools.product([False, True], repeat=6):
        flags = torch.tensor(alive).unsqueeze(-1)
        now = state._replace(aircraft=state.aircraft._replace(alive=flags))
        red, blue = any(alive[:3]), any(alive[3:])
        assert decided(params, now).item() == (not (red and blue))
        assert winner_sign(params, now, 0).item() == float(red and not blue) - float(
            blue and not red
        )
