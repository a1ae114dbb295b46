"""Make the games of a server, and keep the newest fights for their replays."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from navrl.config.checks import ConfigError
from navrl.live.play.choice import (
    DIFFICULTIES,
    MOST_AIRCRAFT,
    Choice,
    checked,
    configuration,
    menu,
    pilot_label,
)
from navrl.live.play.fight import CombatFight
from navrl.live.play.record import (
    LEAVING_LOSES_S,
    Replays,
    facts_of,
    opponent_key,
    outcome_of,
    ratings,
    save,
    score_of,
    write_replay,
)
from navrl.live.play.session import SPEEDS
from navrl.view.combat_page import outcome as outcome_text


class CombatGames:
    """Fights of one player against the pilots of a menu."""

    def __init__(
        self,
        first: Choice,
        *,
        pilot: str,
        overrides: Sequence[str],
        named: Sequence[str],
        seed: int,
    ) -> None:
        self.first, self.pilot = first, pilot
        self.pilots = menu(named)
        self._overrides = overrides
        self._seeds = itertools.count(seed)
        self.replays = Replays()
        self._lock = threading.Lock()
        checked(first, self.pilots)

    def data(self) -> dict[str, Any]:
        """Return what the page needs to offer choices."""
        return {
            "title": "navrl play",
            "kind": "combat",
            "pilots": self.pilots,
            "first": self.first._asdict(),
            "difficulties": {name: each.says for name, each in DIFFICULTIES.items()},
            "mostAircraft": MOST_AIRCRAFT,
            "speeds": SPEEDS,
            "player": self.pilot,
        }

    def make(self, message: Mapping[str, Any]) -> RatedFight:
        """Begin the fight that a message asks for."""
        choice = checked(_choice(message), self.pilots)
        config = configuration(choice, self._overrides)
        with self._lock:
            seed = next(self._seeds)
        return RatedFight(choice, config, seed=seed, games=self)


def _choice(message: Mapping[str, Any]) -> Choice:
    """Return the choice in a message, or raise one sentence about what is wrong with it."""
    texts = {name: message.get(name) for name in ("opponent", "own", "wingman", "difficulty")}
    size = message.get("team_size")
    for name, text in texts.items():
        if type(text) is not str and not (name == "own" and text is None):
            raise ConfigError(f"{name} = {text!r:.40}; expected a name")
    if type(size) is not int:
        raise ConfigError(f"team_size = {size!r:.40}; expected a whole number")
    return Choice(team_size=size, **texts)  # type: ignore[arg-type]  # looked at above


class RatedFight(CombatFight):
    """A fight that is recorded when it ends."""

    def __init__(self, choice: Choice, config: Any, *, seed: int, games: CombatGames) -> None:
        super().__init__(choice, config, seed=seed)
        self._games = games
        self._folder: Path | None = None
        self._writing = threading.Lock()

    def close(self) -> dict[str, Any]:
        """Save the rollout and the result, and return what the page shows of them."""
        outcome = outcome_of(self)
        if outcome.left_early and (not self.playing or outcome.seconds < LEAVING_LOSES_S):
            return {"left": True}
        facts = facts_of(self, outcome, self._games.pilot if self.playing else None)
        name = pilot_label(self.choice.opponent)
        self._folder = save(name, self.rollout(), self.config, facts)
        self._rows, self._chunks = [], []
        self._games.replays.keep(self._folder.name, self)
        lines = score_of(outcome, self.params.time_limit_s)
        return {
            "left": outcome.left_early,
            "text": outcome_text(self.recorded()),
            "outcome": outcome._asdict(),
            "score": lines if self.playing else [],
            "opponent": opponent_key(self),
            "ratings": ratings(self._games.pilot) if self.playing else [],
            "folder": str(self._folder),
            "replay": f"replay/{self._folder.name}",
        }

    def replay(self) -> Path:
        """Return the replay, after writing it."""
        assert self._folder is not None  # only saved fights are kept
        with self._writing:
            path = self._folder / "replay.html"
            return path if path.exists() else write_replay(self._folder, self, self.recorded())
