"""What no rating can express: rock beats scissors, scissors beat paper, paper beats rock."""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

from navrl.selfplay.elo import POINTS_PER_NAT, expected_score
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.strengths import bradley_terry

_PRIOR_GAMES = 1e-3  # keeps perfect scores finite and hides no cycle


class Comparison(NamedTuple):
    """The score of row against column, and what the ratings make of it."""

    row: str
    column: str
    games: int
    observed: float
    predicted: float


class Unexplained(NamedTuple):
    """How much of the results ratings leave open, and the pair that adds most to it."""

    share: float  # 0: one number for each player says it all; 1: ratings say nothing
    chance: float  # what luck alone leaves, roughly and on average, where there is no cycle
    worst: Comparison


def unexplained(payoff: Payoff) -> Unexplained:
    """The part of the deviance from a league of equals that Bradley-Terry ratings leave.

    Deviance is to scores what variance is to measurements: twice the log-likelihood that is
    missing. Draws are half wins and calmer than luck, so they make `chance` too large.
    """
    pairs = [pair for pair in combinations(payoff.players, 2) if payoff.results(*pair).games]
    if not pairs:
        raise ValueError(f"none of {list(payoff.players)} has played; expected at least one game")
    ratings = bradley_terry(payoff, prior_games=_PRIOR_GAMES)
    compared = [
        Comparison(
            row,
            column,
            payoff.results(row, column).games,
            payoff.score(row, column, prior_games=0.0),
            expected_score(ratings[row].points, ratings[column].points),
        )
        for row, column in pairs
    ]
    leads = [ratings[row].points - ratings[column].points for row, column in pairs]
    whole = sum(_deviance(pair.games, pair.observed, 0.0) for pair in compared)
    left = [_deviance(a.games, a.observed, lead) for a, lead in zip(compared, leads, strict=True)]
    free = len(pairs) - len(payoff.players) + len(payoff.groups())  # what the ratings cannot fit
    share, chance = (sum(left) / whole, free / whole) if whole else (0.0, 0.0)
    return Unexplained(share, min(chance, 1.0), compared[left.index(max(left))])


def _deviance(games: int, observed: float, lead: float) -> float:
    """Twice the log-likelihood missed by predicting the score from a lead of so many points."""
    nats = lead / POINTS_PER_NAT
    sides = ((observed, nats), (1.0 - observed, -nats))
    missed = sum(seen * (math.log(seen) + _nats_against(ahead)) for seen, ahead in sides if seen)
    return 2.0 * games * max(missed, 0.0)  # rounding may go below


def _nats_against(ahead: float) -> float:
    """-log of the chance to win with this lead, which may be too small for a float itself."""
    return max(-ahead, 0.0) + math.log1p(math.exp(-abs(ahead)))
