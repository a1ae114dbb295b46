"""Opening positions: inside their bounds, evenly spread, the same in any batch."""

import math

import pytest
import torch

from navrl.sims.random import episode_key
from navrl.sims.scenarios import MidRandom

SCENARIO = MidRandom(
    range_m=(15_000.0, 45_000.0), speed_mps=(200.0, 450.0), heading_spread_rad=math.radians(60.0)
)


def keys(env_ids, episode=0):
    env_ids = torch.as_tensor(env_ids)
    return episode_key(torch.full_like(env_ids, 17), env_ids, torch.full_like(env_ids, episode))


@pytest.fixture(scope="module")
def many():
    return SCENARIO.opening(keys(list(range(8192))))


def line(motion):
    """Range (N,) and unit vector from aircraft 0 to aircraft 1."""
    x_m, y_m = motion.x_m[1] - motion.x_m[0], motion.y_m[1] - motion.y_m[0]
    range_m = torch.hypot(x_m, y_m)
    return range_m, x_m / range_m, y_m / range_m


def five_deviations(samples):
    """Tolerance for the mean of uniform numbers in [0, 1): their deviation is 1 / sqrt(12)."""
    return 5.0 / math.sqrt(12.0 * samples)


def test_range_and_speed_fill_their_bounds_evenly(many):
    range_m, _, _ = line(many)
    for value, low, high in ((range_m, 15e3, 45e3), (many.speed_mps, 200.0, 450.0)):
        part = ((value - low) / (high - low)).flatten()
        assert part.min() > -1e-5
        assert part.max() < 1.0 + 1e-5
        assert part.min() < 0.01
        assert part.max() > 0.99
        assert part.mean().item() == pytest.approx(0.5, abs=five_deviations(part.numel()))


def test_both_point_at_the_enemy_within_the_spread(many):
    _, x, y = line(many)
    for me, sign in ((0, 1.0), (1, -1.0)):
        cos, sin = many.cos_heading[me], many.sin_heading[me]
        off = torch.atan2(sign * (x * sin - y * cos), sign * (x * cos + y * sin))
        part = off / math.radians(60.0)  # evenly in [-1, 1)
        assert part.abs().max() < 1.0 + 1e-5
        assert part.abs().max() > 0.99
        assert part.mean().item() == pytest.approx(0.0, abs=2 * five_deviations(8192))
        assert part.abs().mean().item() == pytest.approx(0.5, abs=five_deviations(8192))
        assert (cos * cos + sin * sin).tolist() == pytest.approx([1.0] * 8192, abs=1e-6)


def test_the_line_between_them_points_anywhere(many):
    _, x, y = line(many)
    sectors = torch.histc(torch.atan2(y, x), bins=16, min=-math.pi, max=math.pi)
    # 512 a sector, deviation sqrt(8192 * 1/16 * 15/16) = 21.9
    assert (sectors - 512.0).abs().max() < 5 * 21.9


def test_range_headings_speeds_and_direction_are_independent(many):
    range_m, x, y = line(many)
    off = [s * (x * many.sin_heading[me] - y * many.cos_heading[me]) for me, s in ((0, 1), (1, -1))]
    table = torch.stack([range_m, x, y, *off, *many.speed_mps])
    correlation = torch.corrcoef(table) - torch.eye(len(table))
    assert correlation.abs().max() < 5.0 / math.sqrt(8192)


def test_the_same_key_opens_the_same_fight_in_any_batch(many):
    for ids in ([0], [8191, 5, 77], list(range(100, 133))):
        alone = SCENARIO.opening(keys(ids))
        for field, whole in zip(alone, many, strict=True):
            assert torch.equal(field, whole[:, ids])


def test_another_episode_opens_another_fight(many):
    other = SCENARIO.opening(keys(list(range(8192)), episode=1))
    assert (other.x_m == many.x_m).float().mean() < 0.001


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("range_m", (0.0, 1.0)),
        ("range_m", (2.0, 1.0)),
        ("speed_mps", (200.0,)),
        ("speed_mps", (-1.0, 3.0)),
    ],
)
def test_impossible_bounds_are_refused(name, bounds):
    with pytest.raises(ValueError, match=rf"change env\.scenario\.{name}$"):
        SCENARIO._replace(**{name: bounds}).checked()
    assert SCENARIO.checked() is SCENARIO
