"""The rules of the fight, one small fight each."""

import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.missile import passed_within
from navrl.envs.combat.sim.state import (
    Action,
    decided,
    elapsed_s,
    initial_state,
    winner_sign,
)
from tests.envs.combat.sim.duels import (
    env_rows,
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


@pytest.mark.parametrize("spare_m", [-0.01, 0.01])
def test_passing_within_a_radius_by_hand(spare_m):
    # Chord from (3, 4) to (3, -4): closest 3 at the middle; to (9, 4): closest 5 at the start;
    # from (6, 8) to (3, 4): 5 at the end; no movement: the distance itself.
    before = torch.tensor([3.0, 3.0, 6.0, 3.0]), torch.tensor([4.0, 4.0, 8.0, 4.0])
    after = torch.tensor([3.0, 9.0, 3.0, 3.0]), torch.tensor([-4.0, 4.0, 4.0, 4.0])
    near = [
        passed_within(least_m + spare_m, before, after)[number].item()
        for number, least_m in enumerate([3.0, 5.0, 5.0, 5.0])
    ]
    assert near == [spare_m > 0.0] * 4


def test_ammunition_counts_down_to_zero_and_never_below():
    params = shipped_params(ammunition=2, max_missile_age_s=3.0)
    states, events = play(params, opening(params, *FAR), 14, fire=[True, False])
    rounds = [s.aircraft.rounds[0].item() for s in states]
    assert rounds == [2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert sum(e.launched[0].item() for e in events) == 2
    assert [n for n, e in enumerate(events) if e.missed[0].item()] == [2, 5]


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


def test_a_missile_whose_target_is_dead_flies_straight_and_defeats_nobody():
    params = shipped_params(team_size=2, max_missile_age_s=3.0)
    red = [(0.0, 0.0, 0.0, 300.0)], [(-9e4, 0.0, 0.0, 300.0)]
    blue = [(3e3, 3e3, 0.0, 300.0)], [(9e4, 0.0, 0.0, 300.0)]
    state = put_missile(opening(params, *red, *blue), 0, target=2, at=(0.0, 500.0, 0.0, 800.0))
    hunted, _ = advance(params, state, orders(state))
    assert hunted.missiles.motion.sin_heading[0, 0].item() > 0.1
    alive = torch.tensor([[True], [True], [False], [True]])
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    states, events = play(params, state, 4)
    assert states[-1].missiles.motion.sin_heading[0, 0].item() == 0.0
    assert states[-1].missiles.motion.y_m[0, 0].item() == 500.0
    wreck = states[-1].aircraft.motion
    assert torch.equal(wreck.x_m[2], state.aircraft.motion.x_m[2])
    assert [e.missed[0].item() for e in events] == [False, False, True, False]
    assert not any(e.defeated.any() for e in events)


def test_events_of_an_early_tick_reach_the_end_of_the_decision():
    params = shipped_params(decision_s=5.0)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(1_000.0, 0.0, 180.0, 300.0)])
    # 980 m at 600 m/s and more: hit within two of the five seconds.
    after, events = advance(params, state, orders(state, fire=[True, False]))
    flags = {name: getattr(events, name)[:, 0].tolist() for name in events._fields}
    assert flags == {
        "launched": [True, False],
        "hit": [True, False],
        "killed": [False, True],
        "missed": [False, False],
        "defeated": [False, False],
    }
    assert after.missiles.age_ticks[0, 0].item() <= 20
    assert elapsed_s(params, after).item() == 5.0


def test_a_missile_slower_than_its_limit_ends_only_after_burning_out():
    params = shipped_params(self_destruct_speed_mps=250.0)
    state = opening(params, [(0.0, 0.0, 0.0, 150.0)], [(2e5, 0.0, 0.0, 300.0)])
    states, events = play(params, state, 70, first={"fire": [True, False]})
    end = next(n for n, e in enumerate(events) if e.missed[0].item())
    assert events[end].defeated[1].item()
    assert states[end].missiles.motion.speed_mps[0, 0].item() >= 250.0
    assert 245.0 < states[end + 1].missiles.motion.speed_mps[0, 0].item() < 250.0
    assert end > 50


def test_a_launch_leaves_ahead_of_the_carrier_with_its_velocity():
    params = shipped_params(decision_s=0.01, tick_s=0.01)
    state = opening(params, [(100.0, 50.0, 90.0, 300.0)], [(0.0, 2e5, 0.0, 300.0)])
    after, _ = advance(params, state, orders(state, fire=[True, False]))
    missile = [field[0, 0, 0].item() for field in after.missiles.motion]
    # 20 m ahead, then 10 ms at 300 m/s; thrust adds (147 - 6.125e-5 * 300^2) * 0.01 = 1.415 m/s
    assert missile == pytest.approx([100.0, 73.0, 0.0, 1.0, 301.415], abs=0.01)


def test_a_row_of_a_batch_is_the_fight_alone_bit_for_bit_in_any_order():
    generator = torch.Generator().manual_seed(2)
    params, rows = shipped_params(), 64
    draw = torch.rand(2, rows, 4, generator=generator)
    table = draw * torch.tensor([2e4, 2e4, 360.0, 300.0]) + torch.tensor([0.0, 0.0, 0.0, 200.0])
    start = opening(params, *table.tolist())
    chosen = [
        orders(
            start,
            rudder=torch.randint(-1, 2, (2, rows), generator=generator),
            fire=torch.rand(2, rows, generator=generator) < 0.3,
        )
        for _ in range(25)
    ]
    shuffled = torch.randperm(rows, generator=generator)
    wholes, happened = start, []
    for action in chosen:
        wholes, events = advance(params, wholes, action)
        happened.append(events)
    assert not wholes.aircraft.alive.all()
    for pick in ([0], [13], [63], list(range(7)), shuffled):
        state = env_rows(start, pick)
        for action, events in zip(chosen, happened, strict=True):
            state, found = advance(params, state, env_rows(action, pick))
            assert same_bits(found, env_rows(events, pick))
        assert same_bits(state, env_rows(wholes, pick))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tick_s", {"tick_s": 0.0}),
        ("tick_s", {"tick_s": 0.9, "decision_s": 0.9}),
        ("time_limit_s", {"time_limit_s": -1.0}),
        ("hit_radius_m", {"hit_radius_m": 0.0}),
        ("team_size", {"team_size": 0}),
        ("team_size", {"team_size": 9}),
        ("model", {"model": "newtonian"}),
        ("channel_mode", {"channel_mode": "fax"}),
        ("burn_time_s", {"burn_time_s": -1.0}),
        ("channels", {"channels": 0}),
        ("ammunition", {"ammunition": 0}),  # such a fight would be over before it begins
        ("time_scale", {"time_scale": math.inf}),
        ("max_missile_age_s", {"max_missile_age_s": math.nan}),
        ("rudder_rate_per_s", {"rudder_rate_per_s": 0.0}),
        ("disengage_range_m", {"disengage_range_m": -1.0}),
        ("fighter.turn_radius_m", {"fighter": FIGHTER._replace(turn_radius_m=0.0)}),
        ("fighter.terminal_speed_mps", {"fighter": FIGHTER._replace(terminal_speed_mps=0.0)}),
        ("fighter.lift_to_drag", {"fighter": FIGHTER._replace(lift_to_drag=-2.0)}),
        ("fighter.thrust_mps2", {"fighter": FIGHTER._replace(thrust_mps2=-1.0)}),
        ("fighter.max_load_g", {"fighter": FIGHTER._replace(max_load_g=0.0)}),
    ],
)
def test_impossible_constants_are_refused_with_the_place_to_change_them(name, changes):
    with pytest.raises(ValueError, match=f"change .*env.sim.{name}"):
        shipped_params(**changes)


def test_exchanging_the_aircraft_exchanges_the_fight_bit_for_bit():
    params = shipped_params()
    draw = torch.Generator().manual_seed(0)
    motion = random_opening(64, draw)
    state, mirror = (initial_state(params, m) for m in (motion, exchanged(motion)))
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
