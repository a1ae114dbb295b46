"""Several scenarios in one run: how often each is drawn, and that the drawn one is itself."""

import math

import pytest
import torch

from navrl.config.compose import build, compose
from navrl.envs.combat.scenarios import Fixed, Rear, ScenarioMixture
from navrl.envs.core import random

COUNT = 8192


def keys(count=COUNT):
    env_ids = torch.arange(count)
    return random.episode_key(torch.full_like(env_ids, 23), env_ids, torch.zeros_like(env_ids))


def straight_line(range_m):
    """Two aircraft this far apart, which tells the scenario from the opening."""
    return Fixed(
        x_m=(0.0, range_m),
        y_m=(0.0, 0.0),
        heading_rad=(0.0, 0.0),
        speed_mps=(300.0, 300.0),
        swap_sides=False,
        spacing_m=(2e3, 6e3),
    )


def three(**weights):
    scenarios = {"a": straight_line(10e3), "b": straight_line(20e3), "c": straight_line(30e3)}
    return ScenarioMixture(scenarios=scenarios, weights=weights).checked()


def shares(motion):
    """How often the ranges of a, b and c occur."""
    range_m = motion.x_m[1] - motion.x_m[0]
    return [(range_m == wanted).double().mean().item() for wanted in (10e3, 20e3, 30e3)]


def assert_shares(motion, expected):
    for found, share in zip(shares(motion), expected, strict=True):
        assert found == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / COUNT))


def test_scenarios_are_drawn_as_often_as_their_weights_say():
    assert_shares(three(a=1, b=3, c=6).opening(keys(), 1), [0.1, 0.3, 0.6])
    assert_shares(three(a=0, b=0, c=2).opening(keys(), 1), [0.0, 0.0, 1.0])


def test_weights_change_while_a_compiled_opening_stays_as_it_is():
    mixture = three(a=1, b=0, c=0)
    compiled = torch.compile(
        mixture.opening, backend="eager", fullgraph=True, dynamic=False, isolate_recompiles=True
    )
    assert shares(compiled(keys(), 1)) == [1.0, 0.0, 0.0]
    with torch._dynamo.config.patch(error_on_recompile=True):
        mixture.set_weights({"a": 0, "b": 1, "c": 3})
        assert_shares(compiled(keys(), 1), [0.0, 0.25, 0.75])


@pytest.mark.parametrize("team_size", [1, 2])
def test_the_drawn_scenario_opens_as_it_does_alone(team_size):
    mixture = build(compose("train", ["scenario=mixture"]).env.scenario).checked()
    mixed = mixture.opening(keys(), team_size)
    alone = [scenario.opening(keys(), team_size) for scenario in mixture.scenarios.values()]
    drawn = torch.zeros(COUNT, dtype=torch.int32)
    for motion, weight in zip(alone, (0.1, 0.1, 0.1, 0.1, 0.1, 0.5), strict=True):
        pairs = zip(mixed, motion, strict=True)
        same = torch.stack([(one == other).all(0) for one, other in pairs]).all(0)
        deviation = math.sqrt(weight * (1 - weight) / COUNT)
        assert same.double().mean().item() == pytest.approx(weight, abs=5 * deviation)
        drawn += same
    assert drawn.unique().tolist() == [1]


def test_the_scenario_is_drawn_apart_from_the_pilot_and_from_its_own_numbers():
    motion = three(a=1, b=0, c=1).opening(keys(), 1)
    far = (motion.x_m[1] > 20e3).float()
    others = [random.uniform(keys(), stream, 8) for stream in (random.SCENARIO, random.LEAGUE)]
    table = torch.cat([far.unsqueeze(0), *others])
    assert torch.corrcoef(table)[0, 1:].abs().max() < 5.0 / math.sqrt(COUNT)


def test_what_is_wrong_with_a_part_or_a_weight_is_said():
    bad = Rear(
        range_m=(2.0, 1.0),
        bearing_spread_rad=0.5,
        heading_spread_rad=3.0,
        speed_mps=300.0,
        spacing_m=(2e3, 6e3),
    )
    with pytest.raises(ValueError, match=r"change scenario\.range_m$"):
        ScenarioMixture(scenarios={"a": bad}, weights={"a": 1.0}).checked()
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\]; change scenario\.weights$"):
        three(a=1, b=1)


def test_a_move_reaches_the_weights_of_mixtures_within():
    inner = three(a=1, b=0, c=0)
    outer = ScenarioMixture(
        scenarios={"inner": inner, "d": straight_line(40e3)}, weights={"inner": 1, "d": 1}
    )
    outer.to("meta")
    assert {outer.weights.tensor.device.type, inner.weights.tensor.device.type} == {"meta"}
