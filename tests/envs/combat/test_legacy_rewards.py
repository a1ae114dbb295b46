"""The original system's terms by hand."""

from functools import partial

import pytest

from navrl.envs.combat.rewards import closeness, pointing, presence, survive
from tests.envs.combat.steps import pairs, start, transition, with_craft

SURVIVE = partial(survive, frames_per_s=60.0)
CLOSENESS = partial(closeness, scale_m=5_000.0)

# The enemy is 20 km away, at cos(bearing) = 0.6.
STATIC = {presence: 1.0, pointing: 0.6, CLOSENESS: 1.0 - 20.0 / 5.0}


def test_survival_is_paid_by_the_frame_until_the_episode_is_over():
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
def test_a_state_is_paid_for_unless_it_ends_the_fight_with_a_winner(term):
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
