"""Reward terms by hand, potentials by a slow reference, and the sums that they must obey."""

import math
from functools import partial

import pytest
import torch

from navrl.envs.combat.rewards import (
    Defend,
    attack,
    closeness,
    defeated,
    draw,
    evade,
    get_hit,
    hit,
    launch,
    outcome,
    pointing,
    presence,
    spared,
    survive,
    timeout,
)
from navrl.envs.combat.sim.params import UNLIMITED
from navrl.envs.combat.sim.reach import reach_table
from navrl.envs.combat.sim.spacetime import best_defence_margin_m
from tests.envs.combat.sim.duels import opening, put_missile
from tests.envs.combat.steps import (
    DISCOUNT,
    PARAMS,
    episode,
    pairs,
    params_of,
    start,
    transition,
    with_craft,
)

EVENTS = {"launched": launch, "hit": hit, "killed": get_hit, "defeated": defeated}


def step(*alive, **how):
    """A step from a hand-made start to a state in which these live."""
    before = start() if len(alive) == 2 else pairs()
    return transition(before, with_craft(before, alive=alive), **how)


@pytest.mark.parametrize(
    ("alive", "reward"),
    [
        ((True, False), 1.0),
        ((False, True), -1.0),
        ((False, False), 0.0),
        ((True, True), 0.0),
        ((False, True, False, False), 1.0),  # a team has won when one of it is left
        ((False, False, True, False), -1.0),
        ((False, False, False, False), 0.0),
    ],
    ids=str,
)
def test_the_outcome_is_the_teams_and_on_the_terminal_step_only(alive, reward):
    assert outcome(step(*alive, terminated=True)).item() == reward
    assert outcome(step(*alive, terminated=True, team=1)).item() == -reward
    assert outcome(step(*alive)).item() == 0.0
    assert outcome(step(*alive, truncated=True)).item() == 0.0
    assert draw(step(*alive, terminated=True)).item() == float(reward == 0.0)


def test_a_draw_is_decided_and_a_timeout_is_cut():
    for team in (0, 1):
        ends = [{"terminated": True}, {"truncated": True}, {}]
        steps = [step(True, True, team=team, **end) for end in ends]
        assert [draw(s).item() for s in steps] == [1.0, 0.0, 0.0]
        assert [timeout(s).item() for s in steps] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", EVENTS)
def test_events_count_per_aircraft_of_the_team(name):
    term = EVENTS[name]

    def amount(flags, team=0):
        before = start() if len(flags) == 2 else pairs()
        return term(transition(before, before, team=team, **{name: flags})).item()

    assert (amount([True, False]), amount([False, True]), amount([False, False])) == (1.0, 0.0, 0.0)
    assert (amount([True, False], team=1), amount([False, True], team=1)) == (0.0, 1.0)
    assert amount([True, False, True, True]) == 0.5
    assert amount([True, True, False, False]) == 1.0
    assert amount([False, False, True, True]) == 0.0
    assert amount([True, False, True, True], team=1) == 1.0


@pytest.mark.parametrize("name", EVENTS)
def test_no_event_is_taken_for_another(name):
    happened = transition(start(), start(), **{name: [True, False]})
    assert [other for other, term in EVENTS.items() if term(happened).item()] == [name]


def test_a_win_is_worth_more_with_missiles_that_the_living_still_have():
    def amount(alive, rounds, **how):
        before = start() if len(alive) == 2 else pairs()
        after = with_craft(before, alive=alive, rounds=rounds)
        return spared(transition(before, after, **({"terminated": True} | how))).item()

    won, lost, both = (True, False), (False, True), (True, True)
    assert amount(won, (5, 6)) == pytest.approx(5 / 6)
    assert amount(won, (0, 6)) == 0.0
    assert amount(won, (5, 6), terminated=False) == 0.0
    assert amount(lost, (5, 6)) == 0.0
    assert amount(both, (5, 6)) == 0.0
    assert amount(lost, (5, 3), team=1) == pytest.approx(0.5)
    # Of twelve rounds the survivor has four; those of the dead one are gone.
    assert amount((True, False, False, False), (4, 6, 6, 6)) == pytest.approx(4 / 12)


def test_an_unlimited_rack_is_always_full():
    after = with_craft(start(), alive=(True, False), rounds=(UNLIMITED - 9, UNLIMITED))
    won = transition(start(), after, terminated=True)
    won = won._replace(params=won.params._replace(ammunition=None))
    assert spared(won).item() == pytest.approx(1.0, abs=1e-6)


ATTACK = partial(attack, discount=DISCOUNT, near_m=10_000.0, scale_m=20_000.0)
EVADE = partial(evade, discount=DISCOUNT, scale_s=15.0)
DEFEND = Defend(discount=DISCOUNT, scale_m=10_000.0)
DEFEND.prepare(PARAMS, "cpu")


def craft_of(state, index):
    """x, y, unit vector of the heading and speed of an aircraft, in Python numbers."""
    return [field[index].item() for field in state.aircraft.motion]


def team_mean(state, of_aircraft):
    """The mean of a potential over the first team, in which the dead count 0."""
    size = params_of(state).team_size
    alive = state.aircraft.alive.flatten().tolist()
    return sum(of_aircraft(me) for me in range(size) if alive[me]) / size


def attack_of(state):
    """The potential of the first team by its definition, with angles."""
    size = params_of(state).team_size
    alive = state.aircraft.alive.flatten().tolist()

    def of_aircraft(me):
        x, y, cos, sin, _ = craft_of(state, me)
        enemies = [craft_of(state, e)[:2] for e in range(size, 2 * size) if alive[e]]
        range_m, (ex, ey) = min((math.dist((x, y), place), place) for place in enemies)
        bearing = math.atan2(ey - y, ex - x) - math.atan2(sin, cos)
        return 0.5 * (1.0 + math.cos(bearing)) * math.exp(-max(range_m - 10e3, 0.0) / 20e3)

    return team_mean(state, of_aircraft)


def evade_of(state):
    """The potential of the first team by its definition: its nearest missile decides."""
    size = params_of(state).team_size
    flying = state.missiles

    def of_aircraft(me):
        x, y, cos, sin, speed = craft_of(state, me)
        threats = []
        for carrier in range(size, 2 * size):
            if not flying.active[carrier, 0] or flying.target[carrier, 0] != me:
                continue
            mx, my, mcos, msin, mspeed = (field[carrier, 0].item() for field in flying.motion)
            range_m = math.dist((x, y), (mx, my))
            along = (
                (mx - x) * (mspeed * mcos - speed * cos),
                (my - y) * (mspeed * msin - speed * sin),
            )
            closing = -sum(along) / range_m
            threats.append((range_m, min(range_m / max(closing, 1.0), 60.0)))
        return -math.exp(-min(threats)[1] / 15.0) if threats else 0.0

    return team_mean(state, of_aircraft)


def defend_of(state):
    """The potential of the first team, from the margins of the space-time graph."""
    params = params_of(state)
    table = reach_table(params)

    def of_aircraft(me):
        margin_m = best_defence_margin_m(params, table, state, me).item()
        return min(max(margin_m / 10e3, -1.0), 1.0)

    return team_mean(state, of_aircraft)


TERMS = [(ATTACK, attack_of), (EVADE, evade_of), (DEFEND, defend_of)]


def test_defend_is_one_out_of_reach_and_minus_one_in_the_enemys_sights():
    far = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(80e3, 0.0, 180.0, 300.0)])
    near = opening(PARAMS, [(0.0, 0.0, 0.0, 200.0)], [(3e3, 0.0, 180.0, 450.0)])
    assert DEFEND(transition(far, near)).item() == pytest.approx(-DISCOUNT - 1.0, abs=1e-6)
    assert DEFEND(transition(near, far)).item() == pytest.approx(DISCOUNT + 1.0, abs=1e-6)
    assert DEFEND(transition(near, far, terminated=True)).item() == pytest.approx(1.0, abs=1e-6)


def test_defend_needs_its_table():
    with pytest.raises(RuntimeError, match=r"call prepare\(params, device\) first"):
        Defend(discount=DISCOUNT, scale_m=1.0)(transition(start(), start()))


@pytest.mark.parametrize(("term", "potential_of"), TERMS, ids=["attack", "evade", "defend"])
@pytest.mark.parametrize("alive", [(1, 1, 1, 1), (1, 1, 0, 1), (0, 1, 1, 1), (1, 0, 1, 0)], ids=str)
def test_a_team_has_the_mean_of_its_aircraft_and_nothing_for_the_dead(alive, term, potential_of):
    state = with_craft(pairs(), alive=alive)
    found = -term(transition(state, state, terminated=True)).item()
    assert found == pytest.approx(potential_of(state), abs=2e-6)
    assert found != 0.0


def test_the_other_team_sees_the_fight_from_its_side():
    one, other = [(0.0, 0.0, 0.0, 300.0)], [(12e3, 16e3, 120.0, 250.0)]
    missile = (6e3, 0.0, 180.0, 700.0)
    state = put_missile(opening(PARAMS, one, other), 1, target=0, at=missile)
    swapped = put_missile(opening(PARAMS, other, one), 0, target=1, at=missile)
    for term, _ in TERMS:
        seen = term(transition(swapped, swapped, terminated=True, team=1)).item()
        assert seen == term(transition(state, state, terminated=True)).item()
        assert seen != term(transition(swapped, swapped, terminated=True)).item()


def won():
    at = (12e3, 13e3, 100.0, 800.0)  # the learner's missile, 3 km south of the enemy
    return episode(put_missile(start(), 0, target=1, at=at, age_ticks=100), [0.0, 0.3], 20)


def lost():
    return episode(start(), [0.0, 0.3], 20)


def disarmed():
    empty = with_craft(start(), rounds=(0, 0))
    return episode(empty, [1.0, 0.3], 90)  # circles until the missile has lost its speed


def cut():
    return episode(start(), [0.0, 0.3], 3)


def one_down():
    """One of two dies, and the fight goes on until it is cut."""
    return episode(pairs(), [0.0, 0.4, 0.3, 0.0], 9)


@pytest.mark.parametrize("play", [won, lost, disarmed, cut, one_down])
def test_the_discounted_sum_of_an_episode_is_minus_its_first_potential(play):
    steps = list(play())
    first, last = steps[0], steps[-1]
    assert last.terminated.item() == (play in (won, lost, disarmed))
    assert last.truncated.item() == (play in (cut, one_down))
    assert last.after.aircraft.alive.all().item() == (play in (disarmed, cut))
    for term, potential_of in TERMS:
        total = sum(DISCOUNT**t * term(step).item() for t, step in enumerate(steps))
        expected = -potential_of(first.before)
        if last.truncated.item():  # as the value, what the last state promises is still owed
            expected += DISCOUNT ** len(steps) * potential_of(last.after)
        assert abs(expected) > 0.01
        assert total == pytest.approx(expected, abs=5e-6)


def test_every_term_is_finite_wherever_the_aircraft_are():
    places = [(0.0, 0.0, 0.0, 60.0), (0.0, 0.0, 180.0, 500.0), (5e6, -5e6, 90.0, 60.0)]
    for mine in places:
        for theirs in places:
            state = opening(PARAMS, [mine], [theirs])
            for term, _ in TERMS:
                assert torch.isfinite(term(transition(state, state))).all()


SURVIVE = partial(survive, frames_per_s=60.0)
CLOSENESS = partial(closeness, scale_m=5_000.0)

# The enemy is 20 km away, at cos(bearing) = 0.6.
STATIC = {presence: 1.0, pointing: 0.6, CLOSENESS: 1.0 - 20.0 / 5.0}


def test_survival_is_rewarded_by_the_frame_until_the_episode_is_over():
    dead = with_craft(start(), alive=(False, True))
    assert SURVIVE(transition(start(), start())).item() == 60.0
    assert SURVIVE(transition(start(), dead)).item() == 0.0
    assert SURVIVE(transition(start(), start(), truncated=True)).item() == 0.0
    assert SURVIVE(transition(start(), start(), terminated=True)).item() == 0.0
    halved = with_craft(pairs(), alive=(True, False, True, True))
    assert SURVIVE(transition(pairs(), halved)).item() == 30.0
    long = transition(start(), start())
    long = long._replace(params=long.params._replace(time_scale=4.0))
    assert SURVIVE(long).item() == 240.0


@pytest.mark.parametrize("term", STATIC, ids=["presence", "pointing", "closeness"])
def test_a_state_is_rewarded_unless_it_ends_the_fight_with_a_winner(term):
    expected = pytest.approx(STATIC[term], abs=1e-6)
    won, lost = (with_craft(start(), alive=alive) for alive in ((1, 0), (0, 1)))
    assert term(transition(start(), start())).item() == expected
    assert term(transition(start(), start(), truncated=True)).item() == expected
    assert term(transition(start(), start(), terminated=True)).item() == expected
    assert term(transition(start(), won, terminated=True)).item() == 0.0
    assert term(transition(start(), lost, terminated=True)).item() == 0.0


def test_a_team_has_the_mean_of_its_living_and_nothing_for_the_dead():
    # The first sees an enemy 25 km away at cos(bearing) 0.96; the second heads away from it, and is
    # 24.1868 km from it: 24 km behind, 3 km abeam.
    whole, halved = pairs(), with_craft(pairs(), alive=(True, False, True, True))
    behind_m = (24e3**2 + 3e3**2) ** 0.5
    second = (1.0, -24e3 / behind_m, 1.0 - behind_m / 5e3)
    first = (1.0, 0.96, 1.0 - 25e3 / 5e3)
    for term, one, other in zip(STATIC, first, second, strict=True):
        found = term(transition(whole, whole)).item()
        assert found == pytest.approx((one + other) / 2, abs=1e-6)
        assert term(transition(whole, halved)).item() == pytest.approx(one / 2, abs=1e-6)
