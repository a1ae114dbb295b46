"""Matches: who won, how many missiles, how long; whatever else is in the batch."""

import pytest
import torch

from navrl.opponents.match import play
from tests.opponents.pictures import keys, pilot
from tests.opponents.test_pilots import scenario
from tests.sims.duels import shipped_params

PARAMS = shipped_params(tick_s=0.25, time_limit_s=90.0)


def match(first, second, count, params=PARAMS, **fixed):
    """Rows winner, launches of both, seconds; sorted, since a match has no order."""
    ends = play(params, scenario(), (pilot(first, params), pilot(second, params)), keys(count))
    return ends[:, ends[0].argsort()]


def test_nobody_wins_where_nobody_fires():
    winner, first, second, length_s = match("straight", "straight", 5)
    assert winner.tolist() == first.tolist() == second.tolist() == [0.0] * 5
    assert length_s.tolist() == [90.0] * 5


@pytest.mark.parametrize("seats", [("crank", "straight"), ("straight", "crank")])
def test_the_winner_is_told_from_the_first_seat(seats):
    winner, *launches, length_s = match(*seats, 20)
    crank = seats.index("crank")
    assert winner.tolist() == [1.0 - 2.0 * crank] * 20
    assert launches[crank].tolist() == [1.0] * 20
    assert launches[1 - crank].tolist() == [0.0] * 20
    assert length_s.min() > 10.0
    assert length_s.max() < 90.0


def test_a_match_of_many_is_many_matches():
    # Fights leave the batch when they are over; that must not touch the others.
    together = play(PARAMS, scenario(), (pilot("random"), pilot("phase2")), keys(12))
    parts = [
        play(PARAMS, scenario(), (pilot("random"), pilot("phase2")), part)
        for part in (keys(12)[:1], keys(12)[1:5], keys(12)[5:])
    ]
    rows = sorted(together.t().tolist())
    assert rows == sorted(torch.cat(parts, 1).t().tolist())
    assert len({row[0] for row in rows}) > 1
    assert len({row[3] for row in rows}) > 6


def test_both_seats_are_alike():
    count = 400
    winner, first, second, _ = match("crank_seed", "crank_seed", count)
    assert abs(winner.sum().item()) < 5.0 * count**0.5
    assert first.mean().item() == pytest.approx(second.mean().item(), abs=0.3)


def test_launches_are_those_of_the_team():
    params = shipped_params(tick_s=0.25, team_size=2, time_limit_s=90.0)
    winner, first, second, _ = match("crank", "straight", 6, params)
    assert winner.min() >= 0.0
    assert first[winner > 0.0].min() >= 2.0
    assert second.max() == 0.0
