"""Opening positions: inside their bounds, evenly spread, the same in any batch."""

import dataclasses
import math

import pytest
import torch

from navrl.config.compose import build, compose
from navrl.envs.combat.scenarios import Box, Fixed, Inbound, MidRandom, Rear, ScenarioMixture
from navrl.envs.core import random
from tests.envs.combat.sim.duels import options, read_yaml
from tests.envs.playing import keys

CLASSES = {
    "mid_random": MidRandom,
    "game28": Fixed,
    "standard30": Fixed,
    "rear": Rear,
    "far40": Inbound,
    "box10": Box,
}


def shipped(name, **changes):
    """The scenario of conf/scenario, with changes."""
    return CLASSES[name](**(options(read_yaml(f"scenario/{name}.yaml")) | changes)).checked()


def line(motion):
    """Range (N,) and unit vector from the first aircraft to the last."""
    x_m, y_m = motion.x_m[-1] - motion.x_m[0], motion.y_m[-1] - motion.y_m[0]
    range_m = torch.hypot(x_m, y_m)
    return range_m, x_m / range_m, y_m / range_m


def five_deviations(samples):
    """Tolerance for the mean of uniform numbers in [0, 1): their deviation is 1 / sqrt(12)."""
    return 5.0 / math.sqrt(12.0 * samples)


@pytest.mark.parametrize("team_size", [1, 3])
@pytest.mark.parametrize("name", CLASSES)
def test_the_same_key_opens_the_same_fight_in_any_batch(name, team_size):
    scenario = shipped(name)
    whole = scenario.opening(keys(1024), team_size)
    for ids in ([0], [1023, 5, 77], list(range(100, 133))):
        alone = scenario.opening(keys(ids), team_size)
        for one, all_of_them in zip(alone, whole, strict=True):
            assert torch.equal(one, all_of_them[:, ids])


def off_the_nose(motion, me, sign):
    """Angle from the line, taken in direction `sign`, to the heading of aircraft `me`."""
    _, x, y = line(motion)
    cos, sin = motion.cos_heading[me], motion.sin_heading[me]
    return torch.atan2(sign * (x * sin - y * cos), sign * (x * cos + y * sin))


def assert_independent(table):
    correlation = torch.corrcoef(table) - torch.eye(len(table))
    assert correlation.abs().max() < 5.0 / math.sqrt(table.shape[1])


def assert_even(value, low, high):
    """Uniform between the bounds, by its mean and its mean square."""
    part = ((value - low) / (high - low)).double().flatten()
    assert part.min() > -1e-4
    assert part.max() < 1.0 + 1e-4
    assert part.mean().item() == pytest.approx(0.5, abs=five_deviations(part.numel()))
    # The square of a uniform number: mean 1/3, deviation sqrt(4/45) = 0.298.
    assert part.square().mean().item() == pytest.approx(1 / 3, abs=5 * 0.298 / part.numel() ** 0.5)


def test_mid_random_draws_range_speed_direction_and_headings_evenly_and_apart():
    scenario = shipped("mid_random", range_m=(15e3, 45e3), heading_spread_rad=1.0)
    motion = scenario.opening(keys(8192), 1)
    range_m, x, y = line(motion)
    off = [off_the_nose(motion, me, sign) for me, sign in ((0, 1.0), (1, -1.0))]
    assert_even(range_m, 15e3, 45e3)
    assert_even(motion.speed_mps, *scenario.speed_mps)
    assert_even(torch.atan2(y, x), -math.pi, math.pi)
    for heading in off:
        assert_even(heading, -1.0, 1.0)
    assert_independent(torch.stack([range_m, x, y, *off, *motion.speed_mps]))


@pytest.mark.parametrize(
    ("name", "range_m", "places"),
    [
        ("game28", 20_000.0 * math.sqrt(2.0), {(15e3, 15e3), (35e3, 35e3)}),
        ("standard30", 30_000.0, {(10e3, 25e3), (40e3, 25e3)}),
    ],
)
def test_the_fixed_openings_are_head_on_with_a_coin_for_the_side(name, range_m, places):
    motion = shipped(name).opening(keys(2000), 1)
    assert line(motion)[0].tolist() == pytest.approx([range_m] * 2000, abs=0.01)
    assert off_the_nose(motion, 0, 1.0).abs().max() < 1e-6
    assert off_the_nose(motion, 1, -1.0).abs().max() < 1e-6
    assert motion.speed_mps.unique().tolist() == [300.0]
    assert {*zip(motion.x_m[0].tolist(), motion.y_m[0].tolist(), strict=True)} == places
    first = (motion.x_m[0] == min(places)[0]).double().mean().item()
    assert first == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(2000))
    settled = shipped(name, swap_sides=False).opening(keys(100), 1)
    assert settled.x_m[0].unique().tolist() == [min(places)[0]]


def test_rear_puts_the_target_behind_the_learner():
    motion = shipped("rear").opening(keys(8192), 1)
    assert_even(line(motion)[0], 10e3, 25e3)
    # The tail of the learner points at the target within 30 degrees, either way evenly.
    assert_even(off_the_nose(motion, 0, -1.0), -math.radians(30.0), math.radians(30.0))
    for me in (0, 1):
        heading = torch.atan2(motion.sin_heading[me], motion.cos_heading[me])
        assert_even(heading, -math.pi, math.pi)
    assert_even(off_the_nose(motion, 1, 1.0), -math.pi, math.pi)
    assert motion.speed_mps.unique().tolist() == [300.0]


def test_far40_lets_one_come_from_afar():
    motion = shipped("far40", swap_sides=False).opening(keys(8192), 1)
    assert line(motion)[0].tolist() == pytest.approx([40e3] * 8192, rel=1e-6)
    assert_even(off_the_nose(motion, 1, -1.0), -0.5, 0.5)
    assert_even(off_the_nose(motion, 0, 1.0), -math.pi, math.pi)
    assert_even(torch.atan2(*reversed(line(motion)[1:])), -math.pi, math.pi)
    assert motion.speed_mps.unique().tolist() == [300.0]


def test_a_coin_decides_who_comes_in_far40():
    settled, tossed = (
        shipped("far40", swap_sides=swap).opening(keys(2000), 1) for swap in (False, True)
    )
    same = tossed.cos_heading[0] == settled.cos_heading[0]
    assert same.double().mean().item() == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(2000))
    for one, other in zip(tossed, settled, strict=True):
        assert torch.equal(one, torch.where(same, other, other.flip(0)))


def test_box10_puts_everybody_anywhere():
    motion = shipped("box10").opening(keys(8192), 1)
    for place in (motion.x_m, motion.y_m):
        assert_even(place, -5e3, 5e3)
    assert_even(motion.speed_mps, 200.0, 300.0)
    assert_even(torch.atan2(motion.sin_heading, motion.cos_heading), -math.pi, math.pi)
    assert_independent(torch.cat([*motion]))


@pytest.mark.parametrize("name", CLASSES)
def test_teams_fly_in_two_lines_abreast_around_their_leaders(name):
    scenario, size = shipped(name), 4
    leaders = scenario.opening(keys(4096), 1)
    team = scenario.opening(keys(4096), size)
    spacings = []
    for side in (0, 1):
        rows = slice(side * size, (side + 1) * size)
        cos, sin = leaders.cos_heading[side], leaders.sin_heading[side]
        for field in ("cos_heading", "sin_heading", "speed_mps"):
            found, leader = getattr(team, field)[rows], getattr(leaders, field)[side]
            assert torch.equal(found, leader.expand(size, -1))
        x_m, y_m = team.x_m[rows].double(), team.y_m[rows].double()
        assert torch.allclose(x_m.mean(0), leaders.x_m[side].double(), atol=0.01)
        assert torch.allclose(y_m.mean(0), leaders.y_m[side].double(), atol=0.01)
        step_x, step_y = x_m.diff(dim=0), y_m.diff(dim=0)
        ahead, left = step_x * cos + step_y * sin, step_y * cos - step_x * sin
        assert ahead.abs().max() < 0.02
        assert (left - left[0]).abs().max() < 0.02
        assert_even(left[0], 2e3, 6e3)
        spacings.append(left[0])
    assert torch.corrcoef(torch.stack(spacings))[0, 1].abs() < 5.0 / math.sqrt(4096)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("mid_random", "range_m", (0.0, 1.0)),
        ("mid_random", "range_m", (2.0, 1.0)),
        ("mid_random", "speed_mps", (200.0,)),
        ("mid_random", "speed_mps", (-1.0, 3.0)),
        ("box10", "spacing_m", (0.0, 1.0)),
        ("box10", "half_side_m", 0.0),
        ("rear", "speed_mps", -300.0),
        ("rear", "range_m", (2.0, 1.0)),
        ("far40", "range_m", 0.0),
        ("game28", "x_m", (1.0,)),
        ("game28", "speed_mps", (300.0, 0.0)),
    ],
)
def test_impossible_numbers_are_refused(name, field, value):
    with pytest.raises(ValueError, match=rf"change scenario\.{field}$"):
        dataclasses.replace(shipped(name), **{field: value}).checked()
    scenario = shipped(name)
    assert scenario.checked() is scenario


COUNT = 8192


def straight_line(range_m):
    """Place two aircraft at a range that identifies the scenario."""
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
    """Return the shares of the ranges of a, b and c."""
    range_m = motion.x_m[1] - motion.x_m[0]
    return [(range_m == wanted).double().mean().item() for wanted in (10e3, 20e3, 30e3)]


def assert_shares(motion, expected):
    for found, share in zip(shares(motion), expected, strict=True):
        assert found == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / COUNT))


def test_scenarios_are_drawn_by_their_weights():
    assert_shares(three(a=1, b=3, c=6).opening(keys(COUNT), 1), [0.1, 0.3, 0.6])
    assert_shares(three(a=0, b=0, c=2).opening(keys(COUNT), 1), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("team_size", [1, 2])
def test_the_drawn_scenario_opens_as_it_does_alone(team_size):
    mixture = build(compose("train", ["scenario=mixture"]).env.scenario).checked()
    mixed = mixture.opening(keys(COUNT), team_size)
    alone = [scenario.opening(keys(COUNT), team_size) for scenario in mixture.scenarios.values()]
    drawn = torch.zeros(COUNT, dtype=torch.int32)
    for motion, weight in zip(alone, (0.1, 0.1, 0.1, 0.1, 0.1, 0.5), strict=True):
        pairs = zip(mixed, motion, strict=True)
        same = torch.stack([(one == other).all(0) for one, other in pairs]).all(0)
        deviation = math.sqrt(weight * (1 - weight) / COUNT)
        assert same.double().mean().item() == pytest.approx(weight, abs=5 * deviation)
        drawn += same
    assert drawn.unique().tolist() == [1]


def test_the_scenario_is_drawn_apart_from_the_pilot_and_from_its_own_numbers():
    motion = three(a=1, b=0, c=1).opening(keys(COUNT), 1)
    far = (motion.x_m[1] > 20e3).float()
    others = [random.uniform(keys(COUNT), stream, 8) for stream in (random.SCENARIO, random.LEAGUE)]
    table = torch.cat([far.unsqueeze(0), *others])
    assert torch.corrcoef(table)[0, 1:].abs().max() < 5.0 / math.sqrt(COUNT)


def test_a_wrong_part_or_weight_is_named():
    bad = dataclasses.replace(shipped("rear"), range_m=(2.0, 1.0))
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
