"""Ratings of players: Elo while a league learns, Bradley-Terry strengths with intervals of all its games.

Bradley and Terry: the odds that one player beats another are the ratio of their strengths. A draw counts as
half a win for both, as in Elo: the prediction is the score per game, which is also what win rates and
matchmaking use. Davidson's model would add the chance of a draw as one more number, the same for all pairs;
in a league it is not, because careful pilots draw among themselves. The price of half wins: with many draws
the intervals are wider than needed, never narrower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.selfplay.payoff import Payoff

START = 1000.0  # the rating of a new player
POINTS_PER_NAT = 400.0 / math.log(10.0)  # 400 points are a factor of 10 in the odds
_CYCLE_PRIOR_GAMES = 1e-3  # keeps perfect scores finite and hides no cycle
_Z = NormalDist().inv_cdf(0.975)  # half of a 95 % interval in standard deviations
# If no difference of strengths that matters moves by more than this, the curvature grows by less
# than e^0.5 < 2 on the way, so that every step of Newton's method climbs.
_LONGEST_STEP = 0.5  # nats
_MAX_STEPS = 10_000
_CONVERGED = 1e-6  # nats; errors are squared from step to step, so what is left is rounding


class Result(NamedTuple):
    """The score of a game, or the mean of many: 1 if `row` won, 0.5 for a draw, 0 if `column` won."""

    row: str
    column: str
    score: float


def expected_score(rating: float, opponent: float) -> float:
    """Return the score per game that ratings predict: 1 / (1 + 10 ** ((opponent - rating) / 400))."""
    odds = math.exp(-abs(rating - opponent) / POINTS_PER_NAT)  # of the weaker, so at most 1
    return 1.0 / (1.0 + odds) if rating >= opponent else odds / (1.0 + odds)


class Elo:
    """Ratings that move by `k` times (score - expected score); the points of both players sum to the same."""

    def __init__(self, *, k: float = 16.0) -> None:
        self.k = k
        self.ratings: dict[str, float] = {}

    def add(self, player: str, parent: str | None = None) -> None:
        """Rate a new player like the parent that it is a copy of, or with START."""
        if player in self.ratings:
            raise ValueError(f"player {player!r} has a rating already; expected a new name")
        self.ratings[player] = START if parent is None else self._rating(parent)

    def remove(self, player: str) -> None:
        """Forget a player; the others keep their ratings."""
        self._rating(player)
        del self.ratings[player]

    def update(self, results: Iterable[Result]) -> None:
        """Count results one after the other in the order given; a malformed one changes nothing.

        The order matters, so the caller fixes it. The mean of many games moves a rating no more than
        a single game: with `k` for each of hundreds of games a rating would depend on the last few
        dozen only, with an error of tens of points.
        """
        ratings = dict(self.ratings)
        for result in results:
            row, column, score = result
            known = row in ratings and column in ratings
            if not known or row == column or not 0.0 <= score <= 1.0:
                raise ValueError(
                    f"{result}; expected two different players of {list(ratings)} "
                    "and a score in [0, 1]"
                )
            gain = self.k * (score - expected_score(ratings[row], ratings[column]))
            ratings[row] += gain
            ratings[column] -= gain
        self.ratings = ratings

    def state_dict(self) -> dict[str, float]:
        """Return the ratings by name."""
        return dict(self.ratings)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore what state_dict returned."""
        self.ratings = {player: float(rating) for player, rating in state.items()}

    def _rating(self, player: str) -> float:
        if player not in self.ratings:
            raise ValueError(f"player {player!r} has no rating; expected one of {[*self.ratings]}")
        return self.ratings[player]


class Rating(NamedTuple):
    """A strength on Elo's scale with its 95 % interval, against the zero point of its group."""

    points: float
    low: float
    high: float
    games: int
    group: int  # the place in `Payoff.groups()`: ratings of different groups do not compare


def bradley_terry(payoff: Payoff, *, prior_games: float = 1.0) -> dict[str, Rating]:
    """Return the most probable rating of every player.

    The mean of every group is 1000 points. A player without games is nan within (-inf, inf).

    Without a prior (`prior_games=0`) these are the most likely ratings, infinite when a player
    has a perfect score. The prior is imagined draws: every player distributes half of
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
    """Return points, low and high of every player in one group."""
    if len(group) == 1:
        return [(math.nan, -math.inf, math.inf)]
    strength, covariance = _fit(_scores(payoff, group, prior_games))
    points = START + POINTS_PER_NAT * strength
    half = POINTS_PER_NAT * _Z * covariance.diagonal().sqrt()
    low, high = points - half, points + half
    return list(zip(points.tolist(), low.tolist(), high.tolist(), strict=True))


def _scores(payoff: Payoff, group: list[str], prior_games: float) -> Tensor:
    """Return wins of row against column, draws as halves, with the prior: [players, players]."""
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
    """Raise unless a chain of wins leads from every player to every other: Ford's condition."""
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
    """Return log strengths of mean 0 and their covariance, the inverse of the observed information."""
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


class Cycles(NamedTuple):
    """The part of the results that no rating explains: rock beats scissors, scissors paper, paper rock."""

    share: float  # 0: one number per player explains everything; 1: ratings explain nothing
    chance: float  # the share that luck alone leaves, roughly and on average, without any cycle


def cycles(payoff: Payoff) -> Cycles:
    """Return the part of the deviance from a league of equals that Bradley-Terry ratings leave.

    Deviance is to scores what variance is to measurements: twice the missing log-likelihood. Draws are
    half wins and vary less than luck, so that they make `chance` too large.
    """
    pairs = [pair for pair in combinations(payoff.players, 2) if payoff.results(*pair).games]
    if not pairs:
        raise ValueError(f"none of {list(payoff.players)} has played; expected at least one game")
    ratings = bradley_terry(payoff, prior_games=_CYCLE_PRIOR_GAMES)
    whole = left = 0.0
    for row, column in pairs:
        games = payoff.results(row, column).games
        observed = payoff.score(row, column, prior_games=0.0)
        whole += _deviance(games, observed, 0.0)
        left += _deviance(games, observed, ratings[row].points - ratings[column].points)
    free = len(pairs) - len(payoff.players) + len(payoff.groups())  # what the ratings cannot fit
    return Cycles(left / whole, min(free / whole, 1.0)) if whole else Cycles(0.0, 0.0)


def _deviance(games: int, observed: float, lead: float) -> float:
    """Return twice the log-likelihood missed by predicting the score from a lead in points."""
    nats = lead / POINTS_PER_NAT
    sides = ((observed, nats), (1.0 - observed, -nats))
    missed = sum(seen * (math.log(seen) + _nats_against(ahead)) for seen, ahead in sides if seen)
    return 2.0 * games * max(missed, 0.0)  # rounding may go below


def _nats_against(ahead: float) -> float:
    """Return -log of the chance to win with this lead; the chance itself may be too small for a float."""
    return max(-ahead, 0.0) + math.log1p(math.exp(-abs(ahead)))
