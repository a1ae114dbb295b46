"""The original's map: its lattice, sizes, heights and gaps."""

import dataclasses
import itertools
import math

import pytest
import torch

from tests.envs.navigation.maps.examples import (
    EDGES_M,
    PILLARS,
    SHARES,
    SMALL_PILLARS,
    binomial,
    made,
)


@pytest.fixture(scope="module")
def pillars():
    return made(PILLARS, range(32)).boxes


def cells_of(boxes):
    """First cell and number of cells along x and y of every pillar, from its walls; (4, G, B) integers."""
    numbers = []
    for middle, half in ((boxes.x, boxes.half_x_m), (boxes.y, boxes.half_y_m)):
        numbers += [(middle - half + 20.0) / 0.1, 2.0 * half / 0.1 + 1.0]
    exact = torch.stack(numbers).double()
    assert (exact - exact.round()).abs().max() < 1e-3
    return exact.round().to(torch.int64)


def test_pillars_stand_on_the_lattice_with_walls_0_3_or_0_7_m_apart(pillars):
    column, width, row, length = cells_of(pillars)
    for first, cells in ((column, width), (row, length)):
        assert set(cells.unique().tolist()) == {4, 8}
        assert (first % 4 == 0).all()
        assert int(first.min()) == 0
        assert int((first + cells - 1).max()) <= 400  # the last vertex of the field
    assert {round(2.0 * half, 4) for half in pillars.half_x_m.unique().tolist()} == {0.3, 0.7}
    assert (pillars.bottom_m == 0.0).all()
    assert (pillars.cos_yaw == 1.0).all()
    assert (pillars.sin_yaw == 0.0).all()


def test_widths_and_lengths_are_drawn_evenly_and_apart(pillars):
    _, width, _, length = cells_of(pillars)
    total = width.numel()
    for pair in itertools.product((4, 8), repeat=2):
        seen = int(((width == pair[0]) & (length == pair[1])).sum())
        assert abs(seen - total / 4) < binomial(total, 0.25)


def share_below(height_m):
    """Return the share of the mixture below a height, from its definition."""
    parts = zip(itertools.pairwise(EDGES_M), SHARES, strict=True)
    return sum(
        share * min(max((height_m - low) / (high - low), 0.0), 1.0) for (low, high), share in parts
    )


def test_heights_follow_the_mixture(pillars):
    steps = (pillars.top_m / 0.1).double()
    assert (steps - steps.round()).abs().max() < 1e-3  # rounded to 0.1 m
    steps = steps.round().to(torch.int64).flatten()
    assert int(steps.min()) == 10
    assert int(steps.max()) == 60
    total = steps.numel()
    for step in range(10, 61):
        share = share_below(0.1 * step + 0.05) - share_below(0.1 * step - 0.05)
        assert abs(int((steps == step).sum()) - total * share) < binomial(total, share)
    # 0.1 * 1.25 + 0.15 * 1.75 + 0.2 * 3 + 0.55 * 5 metres; a height deviates by less than 1.7 m.
    mean_m = float(steps.double().mean()) * 0.1
    assert mean_m == pytest.approx(3.7375, abs=5.0 * 1.7 / math.sqrt(total))


def test_pillars_touch_or_are_more_than_ten_cells_apart_whichever_came_first(pillars):
    column, width, row, length = cells_of(pillars)
    touching = 0
    for world in range(3):
        rows = list(
            zip(*(field[world].tolist() for field in (column, width, row, length)), strict=True)
        )
        for (x1, w1, y1, l1), (x2, w2, y2, l2) in itertools.combinations(rows, 2):
            gap_x = max(x2 - (x1 + w1), x1 - (x2 + w2), 0)
            gap_y = max(y2 - (y1 + l1), y1 - (y2 + l2), 0)
            gap = math.hypot(gap_x, gap_y)
            assert not 2.0 <= gap <= 10.0
            touching += gap == 0.0
    assert touching > 100  # the original lets pillars grow together


def test_pillars_are_spread_over_the_whole_field(pillars):
    for middle in (pillars.x, pillars.y):
        part = (middle.double() + 20.0) / 40.0
        assert float(part.mean()) == pytest.approx(0.5, abs=0.01)
        # Edges are a little fuller, since nothing beyond them is too near.
        counts = torch.histc(part.float(), 10, 0.0, 1.0) / part.numel()
        assert ((counts > 0.08) & (counts < 0.13)).all()


def test_a_part_of_the_mixture_that_never_occurs_is_left_out():
    maker = dataclasses.replace(SMALL_PILLARS, height_weights=(0.0, 1.0, 0.0, 3.0)).checked()
    heights = (made(maker, range(16)).boxes.top_m / 0.1).round()
    low, high = (heights >= 15) & (heights <= 20), heights >= 40
    assert (low | high).all()
    total = heights.numel()
    assert abs(int(low.sum()) - total / 4) < binomial(total, 0.25)
