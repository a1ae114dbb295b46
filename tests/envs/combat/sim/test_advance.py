"""The rules of the fight, one small fight each."""

import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import decided, winner_sign
from tests.envs.combat.sim.duels import (
    opening,
    orders,
    play,
    put_missile,
    same_bits,
    shipped_params,
)

FIGHTER = shipped_params().fighter
FAR = [(0.0, 0.0, 0.0, 300.0)], [(200_000.0, 0.0, 0.0, 300.0)]  # nothing flies that far
NEAR = [(0.0, 0.0, 0.0, 300.0)], [(6_000.0, 0.0, 180.0, 300.0)]  # hit within nine seconds


def test_missiles_of_a_mirrored_duel_kill_both_in_the_same_tick():
    params = shipped_params()
    states, events = play(params, opening(params, *NEAR), 12, first={"fire": True})
    assert not states[-1].aircraft.alive.any()
    assert decided(params, states[-1]).all()
    assert winner_sign(params, states[-1], 0).item() == 0.0
    both = [e for e in events if e.killed.any()]
    assert len(both) == 1
    assert both[0].killed.all()
    assert both[0].hit.all()


def test_the_first_kill_ends_the_fight_and_freezes_it():
    params = shipped_params()
    # Both fire, the first aircraft one decision earlier: it wins although a missile is on its way.
    state = opening(params, *NEAR)
    state, _ = advance(params, state, orders(state, fire=[True, False]))
    states, events = play(params, state, 12, first={"fire": [False, True]})
    assert [a.item() for a in states[-1].aircraft.alive] == [True, False]
    assert winner_sign(params, states[-1], 0).item() == 1.0
    assert winner_sign(params, states[-1], 1).item() == -1.0
    last = next(n for n, e in enumerate(events) if e.killed.any())
    frozen, later = (
        states[last + 1],
        advance(params, states[-1], orders(states[-1], 1.0, fire=True)),
    )
    assert same_bits(frozen.aircraft.motion, later[0].aircraft.motion)
    assert same_bits(frozen.missiles, later[0].missiles)
    assert torch.equal(frozen.aircraft.rounds, later[0].aircraft.rounds)
    assert not any(flag.any() for flag in later[1])
    # It froze in the tick of the kill, not at the end of that decision.
    age = frozen.missiles.age_ticks[0, 0].item()
    assert 10 * last < age - 10 <= 10 * (last + 1)
    assert frozen.missiles.age_ticks[1, 0].item() == age - 10


@pytest.mark.parametrize(("aside_m", "hit"), [(0.0, True), (90.0, True), (110.0, False)])
@pytest.mark.parametrize("heading", [0.0, 90.0, -150.0])
def test_a_missile_that_passes_between_two_ticks_is_caught(aside_m, hit, heading):
    # Without guidance the missile covers 1000 m/s * 0.25 s = 250 m of the 200 m + 75 m ahead of it
    # ... and the target 300 m/s * 0.25 s = 75 m towards it: 125 m apart before, 200 m apart after.
    params = shipped_params(navigation_gain=0.0, decision_s=0.25, tick_s=0.25)
    turn = torch.deg2rad(torch.tensor(heading))
    x_m, y_m = turn.cos() * 125.0 - turn.sin() * aside_m, turn.sin() * 125.0 + turn.cos() * aside_m
    state = opening(params, [(-9e3, 0.0, 0.0, 300.0)], [(x_m, y_m, heading + 180.0, 300.0)])
    at = (0.0, 0.0, heading, 1000.0)
    state = put_missile(state, 0, target=1, at=at, age_ticks=200)
    after, events = advance(params, state, orders(state))
    assert [flag.item() for flag in events.killed] == [False, hit]
    assert [flag.item() for flag in events.hit] == [hit, False]
    gap_m = torch.hypot(
        after.missiles.motion.x_m[0, 0] - after.aircraft.motion.x_m[1],
        after.missiles.motion.y_m[0, 0] - after.aircraft.motion.y_m[1],
    )
    assert gap_m > 150.0, "no test of the end points would have seen it"


def test_unlimited_ammunition_counts_launches_and_never_ends():
    params = shipped_params(ammunition=None, max_missile_age_s=1.0)
    states, events = play(params, opening(params, *FAR), 9, fire=True)
    assert all(e.launched.all() for e in events)
    assert states[-1].aircraft.rounds[0].item() == params.rounds - 9
    assert not decided(params, states[-1]).any()


def test_a_fight_without_missiles_in_rack_and_air_is_a_draw():
    params = shipped_params(ammunition=1, max_missile_age_s=4.0)
    states, events = play(params, opening(params, *FAR), 8, fire=True)
    assert [decided(params, s).item() for s in states] == [False] * 4 + [True] * 5
    assert winner_sign(params, states[-1], 0).item() == 0.0
    assert states[-1].aircraft.alive.all()
    assert events[3].missed.all()
    assert events[3].defeated.all()
    assert same_bits(states[4].aircraft.motion, states[-1].aircraft.motion)


def test_the_missiles_of_the_dead_do_not_count_as_armament():
    params = shipped_params(team_size=2)
    state = opening(params, *([(9e3 * n, 0.0, 0.0, 300.0)] for n in range(4)))

    def with_rack(alive, rounds):
        alive, rounds = torch.tensor(alive).unsqueeze(-1), torch.tensor(rounds, dtype=torch.int32)
        craft = state.aircraft._replace(alive=alive, rounds=rounds.unsqueeze(-1))
        return decided(params, state._replace(aircraft=craft)).item()

    assert with_rack([False, True, True, True], [6, 0, 0, 0])
    assert not with_rack([False, True, True, True], [6, 1, 0, 0])
    assert not with_rack([True, True, True, True], [1, 0, 0, 0])
    assert with_rack([True, True, False, False], [6, 6, 6, 6])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tick_s", 0.0), ("time_limit_s", -1.0), ("hit_radius_m", 0.0), ("team_size", 0)),
        *(("team_size", 9), ("model", "newtonian"), ("channel_mode", "fax"), ("burn_time_s", -1.0)),
        *(("channels", 0), ("ammunition", 0), ("time_scale", math.inf), ("rudder_rate_per_s", 0.0)),
        *(("max_missile_age_s", math.nan), ("disengage_range_m", -1.0)),
        *(("fighter.turn_radius_m", 0.0), ("fighter.terminal_speed_mps", 0.0)),
        *(
            ("fighter.lift_to_drag", -2.0),
            ("fighter.thrust_mps2", -1.0),
            ("fighter.max_load_g", 0.0),
        ),
    ],
)
def test_impossible_constants_are_refused_with_the_place_to_change_them(name, value):
    vehicle, _, field = name.rpartition(".")
    changes = {"fighter": FIGHTER._replace(**{field: value})} if vehicle else {name: value}
    with pytest.raises(ValueError, match=f"change .*env.sim.{name}"):
        shipped_params(**changes)
