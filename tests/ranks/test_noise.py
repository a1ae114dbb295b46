"""Random numbers of all envs of a run: each rank's are a part of those of one process."""

import math

import pytest
import torch

from navrl.ranks.noise import (
    Rows,
    by_shards,
    exponential,
    gamma,
    normal,
    rows_of_evaluation,
    rows_of_run,
    uniform,
    whole,
)

LIKE = torch.zeros(())
DRAWS = {
    "uniform": lambda n: uniform((3, n, 2), LIKE, axis=1),
    "normal": lambda n: normal((n,), LIKE, axis=0),
    "exponential": lambda n: exponential((n, 4), LIKE, axis=0),
    "whole": lambda n: whole(7, (n,), LIKE.device, axis=0),
    "gamma": lambda n: gamma(torch.full((2, n, 3), 1.5), axis=1),
}


def of_rank(draw, first, own, total):
    torch.manual_seed(3)
    with rows_of_run(Rows(first, own, total, piece=own)):
        drawn = draw(own)
    return drawn, torch.rand(1).item()


@pytest.mark.parametrize("name", DRAWS)
def test_ranks_share_what_one_process_draws_and_stay_in_step(name):
    torch.manual_seed(3)
    together, after = DRAWS[name](12), torch.rand(1).item()
    parts, states = zip(*(of_rank(DRAWS[name], first, 4, 12) for first in (0, 4, 8)), strict=True)
    axis = next(i for i, size in enumerate(together.shape) if size == 12)
    assert torch.equal(torch.cat(parts, axis), together)
    assert states == (after, after, after)


def test_other_numbers_of_envs_draw_for_themselves():
    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(3)
    with rows_of_run(Rows(4, 4, 12, piece=4)):
        assert torch.equal(uniform((5,), LIKE, axis=0), expected)
        torch.manual_seed(3)
        with rows_of_evaluation():
            assert torch.equal(
                uniform((4,), LIKE, axis=0), torch.rand(5)[:0].new_tensor(expected[:4])
            )


@pytest.mark.parametrize("concentration", [0.3, 1.0, 1.5, 40.0])
def test_gamma_variates_have_their_moments(concentration):
    """Mean and variance are the concentration, the third central moment twice as large."""
    torch.manual_seed(0)
    count = 400_000
    drawn = gamma(torch.full((count,), concentration), axis=0).double()
    centred = drawn - concentration
    # Standard errors of the three: from the central moments of the distribution up to the sixth.
    second, fourth = concentration, 3 * concentration**2 + 6 * concentration
    sixth = 15 * concentration**3 + 130 * concentration**2 + 120 * concentration
    third = 2 * concentration
    assert centred.mean().abs() < 5 * math.sqrt(second / count)
    assert (centred.square().mean() - second).abs() < 5 * math.sqrt((fourth - second**2) / count)
    spread = sixth - third**2 - 6 * fourth * second + 9 * second**3
    assert (centred.pow(3).mean() - third).abs() < 5 * math.sqrt(spread / count)


def test_frames_are_looked_at_shard_by_shard():
    seen = []

    def network(frames):
        seen.append(len(frames))
        return frames + 1.0, frames.sum(-1)

    rows = torch.arange(24.0).view(12, 2)
    with rows_of_run(Rows(0, 12, 24, piece=4)):
        first, second = by_shards(network, rows)
    assert seen == [4, 4, 4]
    assert torch.equal(first, rows + 1.0)
    assert torch.equal(second, rows.sum(-1))
