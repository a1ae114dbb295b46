"""Strengths behind a payoff matrix, all games at once, with intervals.

Bradley and Terry: the odds that one beats another are the ratio of their strengths. A draw counts
as half a win for both, as in Elo: what is predicted is the score per game, which is also what win
rates and matchmaking use. Davidson's model would add the chance of a draw as one more number, the
same for all pairs; in a league it is not, careful pilots draw among themselves. The price of half
wins: with many draws the intervals are wider than needed, never narrower.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.selfplay.elo import POINTS_PER_NAT, START
from navrl.selfplay.payoff import Payoff

_Z = NormalDist().inv_cdf(0.975)  # half of a 95 % interval in standard deviations
# If no difference of strengths that matters moves by more than this, the curvature grows by less
# than e^0.5 < 2 on the way, so that every step of Newton's method climbs.
_LONGEST_STEP = 0.5  # nats
_MAX_STEPS = 10_000
_CONVERGED = 1e-6  # nats; errors are squared from step to step, so what is left is rounding


class Rating(NamedTuple):
    """A strength on Elo's scale with its 95 % interval, against the zero point of its group."""

    points: float
    low: float
    high: float
    games: int
    group: int  # the place in `Payoff.groups()`: ratings of different groups do not compare


def bradley_terry(payoff: Payoff, *, prior_games: float = 1.0) -> dict[str, Rating]:
    """The most probable ratings, by player.

    In every group 1000 points are the mean. Who has not played is nan within (-inf, inf).

    Without a prior (`prior_games=0`) these are the most likely ratings, infinite when somebody
    has a perfect score. The prior is imagined draws: every player shares out half of
    `prior_games` over its opponents, in proportion to the games it had with each. It favours no
    level, and weighs the same in a small league as in a large one.
    """
    if not 0.0 <= prior_games < math.inf:
        raise ValueError(f"prior_games = {prior_games}; expected a finite number of 0 or more")
    rated: dict[str, Rating] = {}
    for place, group in enumerate(payoff.groups()):
        intervals = _intervals(payoff, group, prior_games)
        for player, interval in zip(group, intervals, strict=True):
            games = sum(payoff.results(player, other).games for other in group)
            rated[player] = Rating(*interval, games, place)
    return {player: rated[player] for player in payoff.players}


def _intervals(
    payoff: Payoff, group: list[str], prior_games: float
) -> list[tuple[float, float, float]]:
    """Points, low and high of everybody in one group."""
    if len(group) == 1:
        return [(math.nan, -math.inf, math.inf)]
    strength, covariance = _fit(_scores(payoff, group, prior_games))
    points = START + POINTS_PER_NAT * strength
    half = POINTS_PER_NAT * _Z * covariance.diagonal().sqrt()
    low, high = points - half, points + half
    return list(zip(points.tolist(), low.tolist(), high.tolist(), strict=True))


def _scores(payoff: Payoff, group: list[str], prior_games: float) -> Tensor:
    """Wins of row against column, draws as halves, the prior's included: [players, players]."""
    wins = torch.tensor(
        [[payoff.results(row, column).score for column in group] for row in group],
        dtype=torch.float64,
    )
    games = wins + wins.T
    share = 0.5 * games / games.sum(1, keepdim=True)
    scores = wins + 0.5 * prior_games * (share + share.T)
    _require_finite(scores, group)
    return scores


def _require_finite(scores: Tensor, group: list[str]) -> None:
    """Ford's condition: strengths are finite if a chain of wins leads from everybody to everybody."""
    leads = (scores > 0.0).double() + torch.eye(len(group), dtype=torch.float64)
    for _ in range(len(group).bit_length()):  # chains of 1, 2, 4, ... wins
        leads = (leads @ leads > 0.0).double()
    if not leads.all():
        row, column = (leads == 0.0).nonzero()[0].tolist()
        raise ValueError(
            f"no chain of wins leads from {group[row]!r} to {group[column]!r}, so the most likely "
            "ratings are infinite; expected some, or prior_games above 0"
        )


def _fit(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Log strengths of mean 0 and their covariance, the inverse of the observed information."""
    players = len(scores)
    games = scores + scores.T
    flat = torch.full_like(scores, 1.0 / players)
    strength = scores.new_zeros(players)
    for _ in range(_MAX_STEPS):
        loses = torch.sigmoid(strength - strength[:, None])  # the row against the column
        weight = games * loses * loses.T
        information = weight.sum(1).diag() - weight
        # a shift of all strengths explains nothing: the information has no inverse until the
        # shift is pinned, at any positive value, which the covariance then gives back
        pin = information.trace() / players
        covariance = torch.linalg.inv(information + pin * flat) - flat / pin
        # not wins minus expected wins, whose difference drowns in rounding near a perfect score
        step = covariance @ (scores * loses - scores.T * loses.T).sum(1)
        longest = float(((step[:, None] - step).abs() * (games > 0.0)).max())
        strength = strength + step * (_LONGEST_STEP / max(longest, _LONGEST_STEP))
        if longest < _CONVERGED:
            return strength, covariance
    raise RuntimeError(
        f"ratings of {players} players did not settle in {_MAX_STEPS} steps; "
        "expected less lopsided scores, or a larger prior_games"
    )
