"""Elo: ratings that follow a league while it learns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

START = 1000.0  # the rating of a player of whom nothing is known
POINTS_PER_NAT = 400.0 / math.log(10.0)  # 400 points are a factor of 10 in the odds


class Result(NamedTuple):
    """Of a game, or the mean of many: 1 if `row` won, 0.5 for a draw, 0 if `column` won."""

    row: str
    column: str
    score: float


def expected_score(rating: float, opponent: float) -> float:
    """Score per game that ratings predict: 1 / (1 + 10 ** ((opponent - rating) / 400))."""
    odds = math.exp(-abs(rating - opponent) / POINTS_PER_NAT)  # of the weaker, so at most 1
    return 1.0 / (1.0 + odds) if rating >= opponent else odds / (1.0 + odds)


class Elo:
    """Ratings moved by `k` times the surprise of each result; what one wins, the other loses."""

    def __init__(self, *, k: float = 16.0) -> None:
        self.k = k
        self.ratings: dict[str, float] = {}

    def add(self, player: str, parent: str | None = None) -> None:
        """Rate a newcomer like the parent that it is a copy of, or with START."""
        if player in self.ratings:
            raise ValueError(f"player {player!r} has a rating already; expected a new name")
        self.ratings[player] = START if parent is None else self._rating(parent)

    def remove(self, player: str) -> None:
        """Forget a player; the others keep their ratings."""
        self._rating(player)
        del self.ratings[player]

    def update(self, results: Iterable[Result]) -> None:
        """Count results one after the other in the order given; a malformed one changes nothing.

        The order matters: the caller fixes it, and the same results then give the same ratings. The
        mean of many games moves no more than a single one: with `k` for each of hundreds of games
        a rating would be what the last few dozen say, give or take tens of points.
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
        """The ratings by name."""
        return dict(self.ratings)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take over the ratings that `state_dict` gave."""
        self.ratings = {player: float(rating) for player, rating in state.items()}

    def _rating(self, player: str) -> float:
        if player not in self.ratings:
            raise ValueError(f"player {player!r} has no rating; expected one of {[*self.ratings]}")
        return self.ratings[player]
