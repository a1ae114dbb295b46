"""Files of a fight: the rollout of the player's side, what came out, and the ratings of all fights so far.

outputs/play/<date>-<time>-<opponent>/
  fight.json       who flew, the seed, the result and the score
  config.json      the configuration; with seed and actions the fight is flown again, bit for bit
  rollouts/        one file, as `navrl rollouts` reads it
  replay.html      written when it is first asked for, by the page or by `navrl replay <folder>`
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tensordict import TensorDictBase

from navrl.config.compose import to_json
from navrl.live.play.choice import pilot_label
from navrl.live.play.fight import PLAYER, CombatFight
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.ratings import START, bradley_terry
from navrl.storage.files import make_directory, read_json, write_atomically
from navrl.storage.files import to_json as json_text
from navrl.storage.find import OUTPUTS
from navrl.storage.rollouts import RolloutStorage
from navrl.view.combat_page import combat_page
from navrl.view.combat_recording import Recording
from navrl.view.spacetime import spacetime_graph

FOLDER = OUTPUTS / "play"
LEAVING_LOSES_S = 10.0  # of game time; who leaves a fight later than that has lost it
FILE, CONFIG = "fight.json", "config.json"
_MOST_KEPT = 8  # games whose replay can be asked for
_MOST_FIGHTS = 5000  # that ratings are made of, the newest
_NOT_IN_NAMES = re.compile(r"[^\w-]+", re.ASCII)
_WIN, _DRAW, _EVADED, _LEFT, _FAST = 1000, 400, 100, 50, 300  # points
_RESULTS = {1: (1, 0, 0), 0: (0, 1, 0), -1: (0, 0, 1)}  # wins, draws, losses


class Outcome(NamedTuple):
    """The end of a fight, from the player's side."""

    result: int  # 1 won, 0 draw, -1 lost
    reason: str
    seconds: float
    fired: int
    hits: int
    evaded: int  # missiles that flew at the player and ended without a hit
    left: int  # missiles in the player's rack
    left_early: bool  # the player has left it


def outcome_of(fight: CombatFight) -> Outcome:
    """Return how a fight ended for the player's side."""
    recorded = fight.recorded()
    own = recorded.aircraft[PLAYER]
    flights = [flight for flight in recorded.flights if flight.carrier == PLAYER]
    coming = [flight for flight in recorded.flights if flight.target == PLAYER]
    sign = {0: 1, 1: -1, None: 0}[recorded.winner] if fight.over else -1
    return Outcome(
        result=sign,
        reason=recorded.reason if fight.over else "you left",
        seconds=round(recorded.times_s[-1], 2),
        fired=len(flights),
        hits=sum(flight.ending == "hit" for flight in flights),
        evaded=sum(flight.ending == "miss" for flight in coming),
        left=own.rounds[-1] if own.died_s is None else 0,
        left_early=not fight.over,
    )


def score_of(outcome: Outcome, time_limit_s: float) -> list[tuple[str, int]]:
    """Return what counts, each with its points."""
    lines = [("won", _WIN)] if outcome.result > 0 else []
    lines += [("a draw", _DRAW)] if outcome.result == 0 else []
    lines += [(f"{outcome.evaded} evaded", _EVADED * outcome.evaded)] if outcome.evaded else []
    if outcome.result > 0:
        lines.append((f"{outcome.left} missiles left", _LEFT * outcome.left))
        lines.append(("quickly", round(_FAST * max(0.0, 1.0 - outcome.seconds / time_limit_s))))
    return lines


class Replayed(Protocol):
    """A game with a replay."""

    def replay(self) -> Path:
        """Return the file of the replay, written when it is asked for first."""


class Replays:
    """The newest games of a server, whose replays can be asked for by name."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Replayed] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, name: str, game: Replayed) -> None:
        """Keep a game, and forget the oldest."""
        with self._lock:
            self._kept[name] = game
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def path(self, name: str) -> Path | None:
        """Return the replay of a game, None if there is none of this name."""
        with self._lock:
            game = self._kept.get(name)
        return None if game is None else game.replay()


# ---- files -----------------------------------------------------------------------------------------


def save(name: str, rollout: TensorDictBase, config: Any, facts: Mapping[str, Any]) -> Path:
    """Write rollout, configuration and result of a game; return its folder."""
    folder = _free_folder(name)
    store = RolloutStorage(
        directory=folder / "rollouts", save_every=1, keep_last=None, drop=(), compress=False
    )
    store.save(rollout, iteration=1)
    write_atomically(folder / CONFIG, json_text(to_json(config), indent=1))
    write_atomically(folder / FILE, json_text(dict(facts), indent=1))
    return folder


def facts_of(fight: CombatFight, outcome: Outcome, pilot: str | None) -> dict[str, Any]:
    """Return who flew and what came out; the pilot is None if no player flew."""
    return {
        "pilot": pilot,
        "choice": fight.choice._asdict(),
        "opponent": opponent_key(fight),
        "seed": fight.seed,
        **outcome._asdict(),
        "score": sum(points for _, points in score_of(outcome, fight.params.time_limit_s)),
    }


def _free_folder(name: str) -> Path:
    """Make a folder that nobody has."""
    name = _NOT_IN_NAMES.sub("-", name).strip("-")[:60]
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    make_directory(FOLDER)
    for number in range(1, 1000):
        folder = FOLDER / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{FOLDER / stem} and 999 like it are there; remove some")


def write_replay(folder: Path, fight: CombatFight, recorded: Recording) -> Path:
    """Write the page of `navrl replay`; return its file."""
    own, other = fight.pilots
    text = combat_page(
        recorded,
        spacetime_graph,
        title=f"{own} against {other}",
        subtitle=f"{fight.choice.difficulty}, seed {fight.seed}",
        pilots=fight.pilots,
    )
    write_atomically(folder / "replay.html", text)
    return folder / "replay.html"


# ---- ratings ---------------------------------------------------------------------------------------


def opponent_key(fight: CombatFight) -> str:
    """Return the name under which fights against this opponent are counted together."""
    choice = fight.choice
    size = f"{choice.team_size} x " if choice.team_size > 1 else ""
    hardness = "" if choice.difficulty == "normal" else f" ({choice.difficulty})"
    return f"{size}{pilot_label(choice.opponent)}{hardness}"


def ratings(pilot: str) -> list[dict[str, Any]]:
    """Return the player's rating against every opponent, with the 95 % interval, the newest fight first.

    A lead of 400 points is a chance of 10 to 1. Each opponent is rated START, so `points` is START plus the
    lead over this one.
    """
    found: dict[str, Payoff] = {}
    for name, opponent, result in _results():
        if name != pilot:
            continue
        payoff = found.setdefault(opponent, Payoff(["player", "opponent"]))
        payoff.record("player", "opponent", *_RESULTS[result])
    rows = []
    for opponent, payoff in found.items():
        rating = bradley_terry(payoff)["player"]
        # Both are rated around their mean: the lead is twice the distance from it.
        low, points, high = (
            START + 2.0 * (each - START) for each in (rating.low, rating.points, rating.high)
        )
        rows.append(
            {
                "opponent": opponent,
                **payoff.results("player", "opponent")._asdict(),
                "points": round(points),
                "low": round(low),
                "high": round(high),
            }
        )
    return rows


def _results() -> Iterator[tuple[str, str, int]]:
    """Yield player, opponent and result of the intact records, the newest first."""
    if not FOLDER.is_dir():
        return
    for folder in sorted(FOLDER.iterdir(), reverse=True)[:_MOST_FIGHTS]:
        try:
            found = read_json(folder / FILE)
            pilot, opponent, result = (found[name] for name in ("pilot", "opponent", "result"))
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if [type(pilot), type(opponent), type(result)] == [str, str, int] and result in _RESULTS:
            yield pilot, opponent, result
