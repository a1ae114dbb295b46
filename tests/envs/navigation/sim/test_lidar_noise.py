"""The errors of a lidar: their size, and what they leave alone."""

import pytest
import torch

from navrl.envs.navigation.sim.lidar import LidarNoise, add_noise

RANGE_M = 4.0
KEY = torch.arange(500) * 7919 + 13
STEP = torch.full((500,), 3.0)


def measured(ranges, key=KEY, step=STEP, **noise):
    return add_noise(
        LidarNoise(**({"range_sigma_m": 0.0, "dropout": 0.0} | noise)), ranges, key, step, RANGE_M
    )


def test_the_error_has_the_standard_configured_deviation():
    ranges = torch.full((144, 500), 2.0)
    error = measured(ranges, range_sigma_m=0.02) - ranges
    assert float(error.mean()) == pytest.approx(0.0, abs=3e-4)  # 72,000 of them: 4 standard errors
    assert float(error.std()) == pytest.approx(0.02, rel=0.01)
    # Of normal numbers 68.3 and 95.4 % are within one and two; of sums of four uniform ones 66.9 and 95.7 %.
    assert float((error.abs() < 0.02).float().mean()) == pytest.approx(0.669, abs=0.007)
    assert float((error.abs() < 0.04).float().mean()) == pytest.approx(0.957, abs=0.003)


def test_rays_are_lost_as_often_as_configured():
    ranges = torch.full((144, 500), 2.0)
    got = measured(ranges, dropout=0.25)
    assert set(got.unique().tolist()) == {2.0, RANGE_M}
    assert float((got == RANGE_M).float().mean()) == pytest.approx(0.25, abs=0.007)
    assert (measured(ranges, dropout=1.0) == RANGE_M).all()


def test_what_is_free_stays_free_and_no_range_is_impossible():
    ranges = torch.cat(
        [torch.full((50, 500), RANGE_M), torch.zeros(50, 500), torch.full((50, 500), 3.99)]
    )
    got = measured(ranges, range_sigma_m=0.5)
    assert (got[:50] == RANGE_M).all()
    assert float(got.min()) == 0.0
    assert float(got.max()) == RANGE_M
    assert torch.equal(measured(ranges), ranges)


def test_errors_are_of_the_episode_and_the_step_and_of_nothing_else():
    ranges = torch.full((144, 500), 2.0)
    got = measured(ranges, range_sigma_m=0.1, dropout=0.1)
    assert torch.equal(got, measured(ranges, range_sigma_m=0.1, dropout=0.1))
    part = measured(ranges[:, 7:9], KEY[7:9], STEP[7:9], range_sigma_m=0.1, dropout=0.1)
    assert torch.equal(part, got[:, 7:9])
    now, later = (measured(ranges, step=STEP + more, range_sigma_m=0.1) for more in (0.0, 1.0))
    columns = torch.cat([now, later], 1).t()
    correlation = torch.corrcoef(columns - columns.mean(0))
    assert (
        float((correlation - torch.eye(1000)).abs().max()) < 0.5
    )  # 144 numbers each: 6 standard errors


@pytest.mark.parametrize(
    "change", [{"range_sigma_m": -1.0}, {"dropout": -0.1}, {"dropout": 1.1}], ids=str
)
def test_impossible_errors_are_refused(change):
    with pytest.raises(ValueError, match=r"change env.sim.noise"):
        measured(torch.ones(2, 500), **change)
