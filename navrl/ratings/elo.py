"""Elo: ratings that follow a league while it learns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

START = 1000.0  # the rating of a player of whom nothing is known
POINTS_PER_NAT = 400.0 / math.log(10.0)  # 400 points are a factor of 10 in the odds


class Game(NamedTuple):
    """One game: 1 if `row` won, 0.5 for a draw, 0 if `column` won."""

    row: str
    column: str
    score: float


def expected_score(rating: float, opponent: float) -> float:
    """Score per game that ratings predict: 1 / (1 + 10 ** ((opponent - rating) / 400))."""
    odds = math.exp(-abs(rating - opponent) / POINTS_PER_NAT)  # of the weaker, so at most 1
    return 1.0 / (1.0 + odds) if rating >= opponent else odds / (1.0 + odds)


class Elo:
    """Ratings moved by `k` times the surprise of each game; what one wins, the other loses."""

    def __init__(self, *, k: float = 16.0, start: float = START) -> None:
        self.k = k
        self.start = start
        self.ratings: dict[str, float] = {}

    def add(self, player: str, parent: str | None = None) -> None:
        """Rate a newcomer like the parent that it is a copy of, or with `start`."""
        if player in self.ratings:
            raise ValueError(f"player {player!r} has a rating already; expected a new name")
        self.ratings[player] = self.start if parent is None else self._rating(parent)

    def remove(self, player: str) -> None:
        """Forget a player; the others keep their ratings."""
        self._rating(player)
        del self.ratings[player]

    def expected(self, row: str, column: str) -> float:
        """Score per game that the ratings predict for `row`."""
        return expected_score(self._rating(row), self._rating(column))

    def update(self, games: Iterable[Game]) -> None:
        """Rate games one after the other in the order given; a malformed game changes nothing.

        The order matters: the caller fixes it (by step, then by env), and the same games then give
        the same ratings. All at once would not do: hundreds of games would overshoot by hundreds
        of points, where one by one each is judged by what the games before it have taught.
        """
        ratings = dict(self.ratings)
        for game in games:
            row, column, score = game
            known = row in ratings and column in ratings
            if not known or row == column or not 0.0 <= score <= 1.0:
                raise ValueError(
                    f"{game}; expected two different players of {list(ratings)} "
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
