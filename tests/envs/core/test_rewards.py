"""The sum of weighted terms, and weights that change during a run."""

import math
import pkgutil
from functools import partial

import pytest
import torch

from navrl import envs
from navrl.envs.alice_and_bob import rewards as grid
from navrl.envs.combat import rewards as combat
from navrl.envs.combat.rewards import Defend, attack, outcome
from navrl.envs.core import rewards as base
from navrl.envs.core.rewards import WeightedReward
from navrl.envs.coverage import rewards as coverage
from navrl.envs.navigation import rewards as navigation
from tests.envs.combat.steps import DISCOUNT, PARAMS, start, transition, with_craft

MODULES = (combat, coverage, grid, navigation)
ATTACK = partial(attack, discount=DISCOUNT, near_m=10_000.0, scale_m=20_000.0)
START_ATTACK = 0.8 * math.exp(-0.5)  # 20 km away, cos(bearing) = 0.6


def lost():
    return transition(start(), with_craft(start(), alive=(False, True)), terminated=True)


def test_parts_are_weighted_terms_in_order_and_sum_to_the_total():
    reward = WeightedReward(
        terms={"outcome": outcome, "attack": ATTACK}, weights={"attack": 0.1, "outcome": 2.0}
    )
    total, parts = reward(lost())
    assert reward.names == ("outcome", "attack")
    expected = [-2.0, -0.1 * START_ATTACK]
    assert [part.item() for part in parts] == pytest.approx(expected, abs=1e-6)
    assert total.item() == pytest.approx(sum(expected), abs=1e-6)
    assert total.shape == (1,)
    assert total.dtype == torch.float32


def test_weights_change_while_a_compiled_reward_stays_as_it_is():
    reward = WeightedReward(terms={"outcome": outcome}, weights={"outcome": 1.0})
    options = {"fullgraph": True, "dynamic": False, "isolate_recompiles": True}
    compiled = torch.compile(reward.__call__, backend="eager", **options)
    assert compiled(lost())[0].item() == -1.0
    with torch._dynamo.config.patch(error_on_recompile=True):
        reward.set_weights({"outcome": 3.0})
        assert compiled(lost())[0].item() == -3.0


@pytest.mark.parametrize(
    "weights", [{}, {"timeout": 1.0}, {"outcome": 1.0, "x": 1.0}, {"outcome": "big"}], ids=str
)
def test_weights_that_do_not_fit_the_terms_are_refused(weights):
    sentence = r"each of \['outcome'\]; change reward\.weights$"
    with pytest.raises(ValueError, match=sentence):
        WeightedReward(terms={"outcome": outcome}, weights=weights)
    reward = WeightedReward(terms={"outcome": outcome}, weights={"outcome": 1.0})
    with pytest.raises(ValueError, match=sentence):
        reward.set_weights(weights)


DEFEND = Defend(discount=DISCOUNT, scale_m=10_000.0)


@pytest.mark.parametrize(
    "term", [navigation.progress, coverage.quality, grid.diamond, ATTACK, DEFEND]
)
def test_a_term_of_another_env_is_refused(term):
    reward = WeightedReward(terms={"mine": term}, weights={"mine": 1.0})
    fights = term in (ATTACK, DEFEND)
    sentence = "^reward term 'mine' reads an env with .*, and this one has .*; change reward$"
    with pytest.raises(ValueError, match=sentence):
        reward.prepare(object() if fights else PARAMS, "cpu")


def test_every_module_of_terms_declares_its_constants():
    found = {module.name for module in pkgutil.walk_packages(envs.__path__, "navrl.envs.")}
    assert {name for name in found if name.endswith(".rewards")} <= {
        module.__name__ for module in [base, *MODULES]
    }
    assert all(hasattr(module, "READS") for module in MODULES)


def test_a_term_from_elsewhere_may_read_any_env():
    elsewhere = WeightedReward(terms={"mine": lambda _: 0.0}, weights={"mine": 1.0})
    elsewhere.prepare(PARAMS, "cpu")
