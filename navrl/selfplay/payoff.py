"""The payoff matrix of a league: wins, draws and losses of every pair of players."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from navrl.storage.schema import Each, check, exactly, whole

_GAP = "  "  # between the columns of a table
_SHORTEST_NAME = 8
_MOST_PLAYERS = 2000  # tables and ratings take time with their square


class Record(NamedTuple):
    """The results of one player against another."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """Return the number of games of the two."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Return the wins, where a draw is half a win."""
        return self.wins + 0.5 * self.draws


class Payoff:
    """Counts of games between named players, in the order in which the players were added."""

    def __init__(self, players: Iterable[str] = ()) -> None:
        self._players: list[str] = []
        # a pair that has played is here under (a, b) and, mirrored, under (b, a)
        self._records: dict[tuple[str, str], Record] = {}
        for player in players:
            self.add(player)

    @property
    def players(self) -> tuple[str, ...]:
        """Return all names, in order."""
        return tuple(self._players)

    def add(self, player: str) -> None:
        """Append a player without games."""
        if player in self._players or not player or not player.isprintable():
            raise ValueError(
                f"player {player!r} cannot be added; expected a name that can be printed "
                f"and is none of {self._players}"
            )
        self._players.append(player)

    def remove(self, player: str) -> None:
        """Forget a player and all its games; to forget only the games, add it again."""
        self._require(player)
        self._players.remove(player)
        self._records = {pair: kept for pair, kept in self._records.items() if player not in pair}

    def record(self, row: str, column: str, wins: int, draws: int, losses: int) -> None:
        """Add games as `row` saw them; `column` has them with wins and losses exchanged."""
        self._require(row, column)
        counts = (wins, draws, losses)
        if row == column or any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(
                f"{row!r} against {column!r}: wins, draws, losses = {counts}; "
                "expected two different players and whole numbers of 0 or more"
            )
        if not any(counts):
            return
        old = self.results(row, column)
        new = Record(old.wins + wins, old.draws + draws, old.losses + losses)
        self._records[row, column] = new
        self._records[column, row] = Record(new.losses, new.draws, new.wins)

    def results(self, row: str, column: str) -> Record:
        """Return all games of the two from the view of `row`."""
        self._require(row, column)
        return self._records.get((row, column), Record(0, 0, 0))

    def games(self, player: str) -> int:
        """Return the number of games of a player."""
        return sum(self.results(player, other).games for other in self._players)

    def score(self, row: str, column: str, *, prior_games: float = 2.0) -> float:
        """Return the score per game after `prior_games` imagined draws; 0.5 without any game."""
        record = self.results(row, column)
        games = record.games + prior_games
        return (record.score + 0.5 * prior_games) / games if games else 0.5

    def groups(self) -> list[list[str]]:
        """Return the groups within which players can be compared: no chain of games joins two groups."""
        groups: list[list[str]] = []
        for player in self._players:
            met = [
                group
                for group in groups
                if any((player, member) in self._records for member in group)
            ]
            groups = [group for group in groups if group not in met]
            groups.append([player, *(member for group in met for member in group)])
        place = self._players.index
        return sorted(
            (sorted(group, key=place) for group in groups), key=lambda members: place(members[0])
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the players, and [row, column, wins, draws, losses] of every pair with games."""
        pairs = combinations(self._players, 2)
        games = [[*pair, *self._records[pair]] for pair in pairs if pair in self._records]
        return {"players": list(self._players), "games": games}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what state_dict returned; a malformed state changes nothing."""
        loaded = Payoff(state["players"])
        for row, column, wins, draws, losses in state["games"]:
            loaded.record(row, column, wins, draws, losses)
        self._players, self._records = loaded._players, loaded._records

    def table(self, width: int = 80) -> str:
        """Return `win% (games)` of row against column as text; columns beyond `width` continue below."""
        names = [_short(name, max(_SHORTEST_NAME, width // 4)) for name in self._players]
        numbers = _aligned([str(place) for place in range(1, len(names) + 1)], ">")
        labels = _aligned(["", *map(" ".join, zip(numbers, names, strict=True))], "<")
        columns = [
            _aligned([number, *(self._cell(row, column) for row in self._players)], ">")
            for number, column in zip(numbers, self._players, strict=True)
        ]
        blocks = []
        while columns:
            room = width - len(labels[0])
            fitting = max(1, room // (len(_GAP) + max(len(column[0]) for column in columns)))
            shown, columns = columns[:fitting], columns[fitting:]
            lines = zip(labels, *shown, strict=True)
            blocks.append("\n".join(_GAP.join(line) for line in lines))
        return "\n\n".join(blocks)

    def _cell(self, row: str, column: str) -> str:
        games = self.results(row, column).games
        return f"{self.score(row, column, prior_games=0.0):.0%} ({games})" if games else "-"

    def _require(self, *players: str) -> None:
        for player in players:
            if player not in self._players:
                raise ValueError(f"player {player!r} is unknown; expected one of {self._players}")


def check_results(state: Any, place: str) -> None:
    """Raise CheckpointMismatch unless Payoff.load_state_dict can restore the state."""
    games = Each(["", "", whole(), whole(), whole()])
    check(state, {"players": Each(""), "games": games}, place)
    players = state["players"]
    check(len(players), whole(most=_MOST_PLAYERS), f"{place}/players, their number")
    for number, game in enumerate(state["games"]):
        check(game[:2], [exactly(*players)] * 2, f"{place}/games/{number}")


def _short(name: str, length: int) -> str:
    """Return both ends of a long name: names in a league often differ in their last digits only."""
    if len(name) <= length:
        return name
    tail = (length - 2) // 2
    return f"{name[: length - 2 - tail]}..{name[-tail:]}"


def _aligned(cells: list[str], side: str) -> list[str]:
    width = max(map(len, cells), default=0)
    return [f"{cell:{side}{width}}" for cell in cells]
