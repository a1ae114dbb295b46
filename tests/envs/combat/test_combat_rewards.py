"""What is paid for what happened, on steps drawn by hand."""

import pytest

from navrl.envs.combat.rewards import defeated, draw, get_hit, hit, launch, outcome, spared, timeout
from navrl.envs.combat.sim.params import UNLIMITED
from tests.envs.combat.steps import pairs, start, transition, with_craft

EVENTS = {"launched": launch, "hit": hit, "killed": get_hit, "defeated": defeated}


def step(*alive, **how):
    """From a hand-made start to a state in which these live."""
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
def test_the_outcome_is_the_teams_and_paid_on_the_terminal_step_only(alive, reward):
    assert outcome(step(*alive, terminated=True)).item() == reward
    assert outcome(step(*alive, terminated=True, team=1)).item() == -reward
    assert outcome(step(*alive)).item() == 0.0
    assert outcome(step(*alive, truncated=True)).item() == 0.0
    assert draw(step(*alive, terminated=True)).item() == float(reward == 0.0)


def test_a_draw_is_decided_and_a_timeout_is_cut():
    for team in (0, 1):
        assert draw(step(True, True, terminated=True, team=team)).item() == 1.0
        assert draw(step(True, True, truncated=True, team=team)).item() == 0.0
        assert draw(step(True, True, team=team)).item() == 0.0
        assert timeout(step(True, True, truncated=True, team=team)).item() == 1.0
        assert timeout(step(True, True, terminated=True, team=team)).item() == 0.0
        assert timeout(step(True, True, team=team)).item() == 0.0


@pytest.mark.parametrize("name", EVENTS)
def test_events_count_per_aircraft_of_the_team(name):
    term = EVENTS[name]

    def paid(flags, team=0):
        before = start() if len(flags) == 2 else pairs()
        return term(transition(before, before, team=team, **{name: flags})).item()

    assert (paid([True, False]), paid([False, True]), paid([False, False])) == (1.0, 0.0, 0.0)
    assert (paid([True, False], team=1), paid([False, True], team=1)) == (0.0, 1.0)
    assert paid([True, False, True, True]) == 0.5
    assert paid([True, True, False, False]) == 1.0
    assert paid([False, False, True, True]) == 0.0
    assert paid([True, False, True, True], team=1) == 1.0


@pytest.mark.parametrize("name", EVENTS)
def test_no_event_is_taken_for_another(name):
    happened = transition(start(), start(), **{name: [True, False]})
    assert [other for other, term in EVENTS.items() if term(happened).item()] == [name]


def test_a_win_pays_for_the_missiles_that_the_living_still_have():
    def paid(alive, rounds, **how):
        before = start() if len(alive) == 2 else pairs()
        after = with_craft(before, alive=alive, rounds=rounds)
        return spared(transition(before, after, **({"terminated": True} | how))).item()

    won, lost, both = (True, False), (False, True), (True, True)
    assert paid(won, (5, 6)) == pytest.approx(5 / 6)
    assert paid(won, (0, 6)) == 0.0
    assert paid(won, (5, 6), terminated=False) == 0.0
    assert paid(lost, (5, 6)) == 0.0
    assert paid(both, (5, 6)) == 0.0
    assert paid(lost, (5, 3), team=1) == pytest.approx(0.5)
    # Of twelve rounds the survivor has four; those of the dead one are gone.
    assert paid((True, False, False, False), (4, 6, 6, 6)) == pytest.approx(4 / 12)


def test_an_unlimited_rack_is_always_full():
    after = with_craft(start(), alive=(True, False), rounds=(UNLIMITED - 9, UNLIMITED))
    won = transition(start(), after, terminated=True)
    won = won._replace(params=won.params._replace(ammunition=None))
    assert spared(won).item() == pytest.approx(1.0, abs=1e-6)
