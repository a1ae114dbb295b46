"""Reward terms on states drawn by hand, and the sums that potentials must obey."""

import math
from functools import partial

import pytest
import torch

from navrl.rewards.base import Transition, WeightedReward
from navrl.rewards.combat import attack, evade, launch, outcome
from navrl.sims.combat import advance
from navrl.sims.combat_state import Events, decided
from tests.sims.duels import opening, orders, put_missile, shipped_params

PARAMS = shipped_params()
DISCOUNT = 0.97
ATTACK = partial(attack, discount=DISCOUNT, near_m=10_000.0, scale_m=20_000.0)
EVADE = partial(evade, discount=DISCOUNT, scale_s=15.0)

# The enemy is 12 km ahead and 16 km to the left, 20 km away: cos(bearing) = 0.6.
START_ATTACK = 0.5 * (1.0 + 0.6) * math.exp(-(20.0 - 10.0) / 20.0)
# Its missile is 6 km ahead, at 700 m/s against 300 m/s: 6 s away.
START_EVADE = -math.exp(-6.0 / 15.0)


def start():
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(12e3, 16e3, 180.0, 300.0)])
    return put_missile(state, 1, target=0, at=(6e3, 0.0, 180.0, 700.0), age_ticks=100)


def transition(before, after, terminated=False, events=None):
    flags = torch.tensor([[False], [False]])
    events = events or Events(flags, flags, flags, flags, flags)
    return Transition(PARAMS, before, after, events, torch.tensor([terminated]))


def with_alive(state, *alive):
    return state._replace(aircraft=state.aircraft._replace(alive=torch.tensor(alive).unsqueeze(-1)))


def episode(state, rudder, decisions):
    """Transitions until the fight is decided or the decisions are used up."""
    for _ in range(decisions):
        after, events = advance(PARAMS, state, orders(state, rudder=[rudder, 0.3]))
        over = decided(PARAMS, after)
        yield Transition(PARAMS, state, after, events, over)
        if over.item():
            return
        state = after


@pytest.mark.parametrize(
    ("alive", "reward"),
    [((True, False), 1.0), ((False, True), -1.0), ((False, False), 0.0), ((True, True), 0.0)],
)
def test_the_outcome_is_paid_on_the_terminal_step_only(alive, reward):
    before, after = start(), with_alive(start(), *alive)
    assert outcome(transition(before, after, terminated=True)).item() == reward
    assert outcome(transition(before, after, terminated=False)).item() == 0.0


def test_attack_by_hand():
    # From 20 km, 53 degrees off the nose, to 8 km dead ahead, where the potential is 1.
    after = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(8e3, 0.0, 180.0, 300.0)])
    found = ATTACK(transition(start(), after)).item()
    assert found == pytest.approx(DISCOUNT * 1.0 - START_ATTACK, abs=1e-6)
    assert ATTACK(transition(start(), after, terminated=True)).item() == pytest.approx(
        -START_ATTACK
    )
    back = ATTACK(transition(after, start())).item()
    assert back == pytest.approx(DISCOUNT * START_ATTACK - 1.0, abs=1e-6)


def test_evade_by_hand():
    without = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(12e3, 16e3, 180.0, 300.0)])
    # A missile 6 km abeam that flies away at 700 m/s does not close: 60 s.
    leaving = put_missile(without, 1, target=0, at=(0.0, 6e3, 90.0, 700.0))
    assert EVADE(transition(start(), without)).item() == pytest.approx(-START_EVADE, abs=1e-6)
    assert EVADE(transition(without, without)).item() == 0.0
    found = EVADE(transition(start(), leaving)).item()
    assert found == pytest.approx(-DISCOUNT * math.exp(-4.0) - START_EVADE, abs=1e-6)
    lost = EVADE(transition(start(), start(), terminated=True)).item()
    assert lost == pytest.approx(-START_EVADE, abs=1e-6)


def test_the_own_missile_is_no_threat():
    own = put_missile(start(), 0, target=1, at=(100.0, 0.0, 180.0, 700.0))
    assert EVADE(transition(start(), own)).item() == EVADE(transition(start(), start())).item()


def lost():
    return list(episode(start(), 0.0, 20))


def won():
    at = (12e3, 13e3, 100.0, 800.0)  # the learner's missile, 3 km south of the enemy
    return list(episode(put_missile(start(), 0, target=1, at=at, age_ticks=100), 0.0, 20))


def disarmed():
    state = start()
    rounds = torch.zeros_like(state.aircraft.rounds)
    state = state._replace(aircraft=state.aircraft._replace(rounds=rounds))
    return list(episode(state, 1.0, 90))  # circles until the missile has lost its speed


@pytest.mark.parametrize(("play", "sign"), [(lost, -1.0), (won, 1.0), (disarmed, 0.0)])
def test_potentials_of_a_terminated_episode_sum_to_minus_the_first_one(play, sign):
    steps = play()
    assert steps[-1].terminated.item()
    assert [outcome(step).item() for step in steps] == [0.0] * (len(steps) - 1) + [sign]
    for term, potential in ((ATTACK, START_ATTACK), (EVADE, START_EVADE)):
        total = sum(DISCOUNT**t * term(step).item() for t, step in enumerate(steps))
        assert total == pytest.approx(-potential, abs=2e-6)


def test_a_cut_episode_keeps_the_potential_of_its_last_state():
    steps = [*episode(start(), 0.0, 2)]
    assert not steps[-1].terminated.item()
    left = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(12e3, 16e3, 180.0, 300.0)])
    steps.append(transition(steps[-1].after, left))  # no missile: potential 0
    total = sum(DISCOUNT**t * EVADE(step).item() for t, step in enumerate(steps))
    assert total == pytest.approx(-START_EVADE, abs=2e-6)
    total = sum(DISCOUNT**t * ATTACK(step).item() for t, step in enumerate(steps))
    assert total == pytest.approx((DISCOUNT**3 - 1.0) * START_ATTACK, abs=2e-6)


def test_launch_counts_the_learners_launches():
    no, yes = torch.tensor([[False], [False]]), torch.tensor([[True], [False]])
    for mine, count in ((yes, 1.0), (yes.flip(0), 0.0), (no, 0.0)):
        step = transition(start(), start(), events=Events(mine, no, no, no, no))
        assert launch(step).item() == count


def test_parts_are_weighted_terms_in_order_and_sum_to_the_total():
    reward = WeightedReward(
        terms={"outcome": outcome, "attack": ATTACK, "evade": EVADE},
        weights={"evade": 0.5, "attack": 0.1, "outcome": 2.0},
    )
    lost = with_alive(start(), False, True)
    total, parts = reward(transition(start(), lost, terminated=True))
    assert reward.names == ("outcome", "attack", "evade")
    expected = [-2.0, -0.1 * START_ATTACK, -0.5 * START_EVADE]
    assert [part.item() for part in parts] == pytest.approx(expected, abs=1e-6)
    assert total.item() == pytest.approx(sum(expected), abs=1e-6)
    assert total.shape == (1,)
    assert total.dtype == torch.float32


def test_no_terms_are_no_reward():
    reward = WeightedReward(terms={}, weights={})
    total, parts = reward(transition(start(), with_alive(start(), True, False), terminated=True))
    assert total.tolist() == [0.0]
    assert total.dtype == torch.float32
    assert parts == []
    assert reward.names == ()


@pytest.mark.parametrize("weights", [{}, {"attack": 1.0}, {"outcome": 1.0, "attack": 1.0}], ids=str)
def test_weights_that_do_not_fit_the_terms_are_refused(weights):
    with pytest.raises(
        ValueError, match=r"expected exactly the terms \['outcome'\]; change reward"
    ):
        WeightedReward(terms={"outcome": outcome}, weights=weights)
