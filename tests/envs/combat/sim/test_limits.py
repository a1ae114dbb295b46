"""Limits of the rudder and of the load, and the length of a decision."""

import itertools
import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import elapsed_s, timed_out
from tests.envs.combat.sim.duels import leaves, opening, orders, put_missile, shipped_params

ALONE = [(0.0, 0.0, 0.0, 300.0)], [(9e5, 0.0, 0.0, 300.0)]


def rudders(params, commands):
    """Return the rudder of the first aircraft after each decision."""
    state, found = opening(params, *ALONE), []
    for command in commands:
        state, _ = advance(params, state, orders(state, rudder=[command, 0.0]))
        found.append(state.aircraft.rudder[0].item())
    return found


@pytest.mark.parametrize("tick_s", [0.1, 0.05, 1 / 60])
@pytest.mark.parametrize("decision_s", [1.0, 0.25])
def test_the_rudder_moves_at_its_rate_and_back(tick_s, decision_s):
    params = shipped_params(rudder_rate_per_s=1.0, tick_s=tick_s, decision_s=decision_s)
    n = round(0.5 / decision_s) or 1
    # Half a second or one decision to the left, back through the middle to the right, and home.
    commands = [1.0] * n + [-1.0] * 4 * n + [0.0] * 3 * n
    place, expected = 0.0, []
    for command in commands:
        step = max(-decision_s, min(decision_s, command - place))
        place += step
        expected.append(place)
    assert rudders(params, commands) == pytest.approx(expected, abs=1e-5)


def test_the_turn_while_the_rudder_moves_is_its_integral():
    # At 300 m/s and a rudder of t the heading is 0.3 t^2 / 2 after t seconds, if the speed is steady:
    # 8.594 degrees after one, and thrust and drag change the speed by less than 2.5 % on the way.
    exact, *coarse = (
        advance(params, state, orders(state, rudder=[1.0, 0.0]))[0].aircraft.motion
        for tick_s in (1e-3, 0.1, 0.025)
        for params in [shipped_params(rudder_rate_per_s=1.0, tick_s=tick_s)]
        for state in [opening(params, *ALONE)]
    )
    for motion in coarse:
        speed_mps = motion.speed_mps[0].item()
        heading = math.atan2(motion.sin_heading[0].item(), motion.cos_heading[0].item())
        assert 0.15 * min(speed_mps / 300.0, 1.0) < heading < 0.15 * max(speed_mps / 300.0, 1.025)
        for found, expected in zip(motion, exact, strict=True):
            assert found[0].item() == pytest.approx(expected[0].item(), abs=0.1, rel=2e-4)


@pytest.mark.parametrize(
    ("speed_mps", "rudder", "limit_g", "radius_m"),
    [
        # v^2 / (n g): 300^2 / 58.8 = 1530.6 m, 450^2 / 88.2 = 2295.9 m
        (300.0, 1.0, 6.0, 1530.6),
        (300.0, -1.0, 6.0, -1530.6),
        (450.0, 1.0, 9.0, 2295.9),
        (450.0, 0.5, 9.0, 2295.9),
        (450.0, 0.25, 9.0, 4000.0),  # 5.2 g: what is requested for
        (200.0, 1.0, 6.0, 1000.0),  # 4.1 g: no more than full rudder
        (450.0, 1.0, None, 1000.0),
    ],
)
def test_the_radius_of_a_turn_is_that_of_the_load_limit(speed_mps, rudder, limit_g, radius_m):
    fighter = shipped_params().fighter._replace(max_load_g=limit_g)
    params = shipped_params(fighter=fighter, tick_s=0.01, decision_s=0.01)
    state = opening(params, [(0.0, 0.0, 0.0, speed_mps)], [(9e5, 0.0, 0.0, 300.0)])
    after, _ = advance(params, state, orders(state, rudder=[rudder, 0.0]))
    motion = after.aircraft.motion
    path_m = 0.01 * (speed_mps + motion.speed_mps[0].item()) / 2.0
    assert path_m / motion.sin_heading[0].item() == pytest.approx(radius_m, rel=2e-3)
    # Drag is that of the turn that is flown: (6.125e-5 + 163.2653 / radius^2) v^2.
    lost = (14.7 - (6.125e-5 + 163.2653 / radius_m**2) * speed_mps**2) * 0.01
    assert motion.speed_mps[0].item() - speed_mps == pytest.approx(lost, abs=2e-3)


def test_a_missile_has_a_limit_of_its_own():
    turns = []
    for limit_g in (None, 30.0):
        missile = shipped_params().missile._replace(max_load_g=limit_g)
        params = shipped_params(missile=missile, tick_s=0.01, decision_s=0.01)
        state = opening(params, [(-9e3, 0.0, 0.0, 300.0)], [(2e3, 2e3, 90.0, 300.0)])
        state = put_missile(state, 0, target=1, at=(0.0, 0.0, -90.0, 1000.0), age_ticks=5000)
        after, _ = advance(params, state, orders(state))
        motion = after.missiles.motion
        turns.append(1000.0 * motion.cos_heading[0, 0].item() / (0.01 * 9.8))  # its load, g
    assert turns == pytest.approx([102.04, 30.0], rel=0.01)  # full rudder: v^2 / R = 1000 m/s^2


@pytest.mark.parametrize(
    ("decision_s", "time_scale", "tick_s"),
    list(itertools.product([1.0, 0.5], [0.33, 1.0, 1.05, 2.0, 7.0], [0.1, 1 / 60])),
)
def test_a_stretched_decision_has_more_ticks_and_never_longer_ones(decision_s, time_scale, tick_s):
    params = shipped_params(decision_s=decision_s, time_scale=time_scale, tick_s=tick_s)
    assert params.ticks * params.dt_s == pytest.approx(decision_s * time_scale)
    assert params.dt_s <= tick_s * (1.0 + 1e-9)
    assert params.ticks == 1 or decision_s * time_scale / (params.ticks - 1) > tick_s
    state = opening(params, *ALONE)
    after, _ = advance(params, state, orders(state))
    assert elapsed_s(params, after).item() == pytest.approx(decision_s * time_scale)
    # dx = v dt, and the thrust of 14.7 m/s^2 less drag of 5.51 m/s^2 at 300 m/s.
    run_s = decision_s * time_scale
    gained = after.aircraft.motion.speed_mps[0].item() - 300.0
    assert gained == pytest.approx(9.19 * run_s, rel=0.02 * run_s + 0.01)


@pytest.mark.parametrize("tenths", [1, 3, 7, 9, 11, 14])
def test_the_time_limit_falls_on_its_decision(tenths):
    # In floats 428 x 0.7 s are less than 299.6 s, and 299.6 s / 0.7 s more than 428.
    whole = shipped_params()
    state = opening(whole, *([craft[0]] * 2 for craft in ALONE))
    for steps in range(1, 3001, 7):
        params = whole._replace(decision_s=tenths / 10, time_limit_s=steps * tenths / 10)
        before_and_at = torch.tensor([steps - 1, steps], dtype=torch.int32)
        assert timed_out(params, state._replace(decision=before_and_at)).tolist() == [False, True]
    assert whole._replace(decision_s=3.0, time_limit_s=10.0).max_decisions == 4  # 9 s are too few


@pytest.mark.parametrize("changes", [{}, {"rudder_rate_per_s": 0.2}, {"team_size": 2}])
def test_two_decisions_equal_one_at_twice_the_time_scale(changes):
    once, twice = shipped_params(**changes), shipped_params(time_scale=2.0, **changes)
    generator = torch.Generator().manual_seed(4)
    size = 2 * once.team_size
    table = torch.rand(size, 12, 4, generator=generator)
    table = table * torch.tensor([12e3, 12e3, 360.0, 200.0]) + torch.tensor([0.0, 0.0, 0.0, 200.0])
    one = two = opening(once, *table.tolist())
    happened = torch.zeros(5, dtype=torch.int64)
    for number in range(10):
        rudder = torch.randint(-1, 2, (size, 12), generator=generator)
        first = number % 4 == 0
        two, (*events,) = advance(twice, two, orders(two, rudder=rudder, fire=first))
        one, (*early,) = advance(once, one, orders(one, rudder=rudder, fire=first))
        one, (*late,) = advance(once, one, orders(one, rudder=rudder))
        for whole, before, after in zip(events, early, late, strict=True):
            assert torch.equal(whole, before | after)
        happened += torch.stack([whole.sum() for whole in events])
    assert happened[:3].min() > 0  # launches, hits and deaths
    assert torch.equal(2 * two.decision, one.decision)
    for mine, theirs in zip(leaves(two)[:-1], leaves(one)[:-1], strict=True):
        torch.testing.assert_close(mine, theirs, atol=0.1, rtol=1e-5)
