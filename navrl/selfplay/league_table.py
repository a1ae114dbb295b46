"""What `navrl evaluate league=<run>` prints: who beat whom, and how strong that makes everybody."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from navrl.config.checks import ConfigError
from navrl.run.policies import OUTPUTS
from navrl.selfplay.cycles import unexplained
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.strengths import Rating, bradley_terry
from navrl.storage.checkpoint import load
from navrl.storage.find import find

_LEAST_GAMES = 10


def find_league(name: str) -> tuple[Path, Payoff]:
    """A run's newest checkpoint, and the payoff matrix of the league in it."""
    path = find(name, OUTPUTS)
    found: Any = load(path).get("curriculum") or {}
    if "league" not in found:
        raise ConfigError(
            f"league = {name}: the run has no league; expected one trained with curriculum=league or "
            "curriculum=cold_start; change league"
        )
    payoff = Payoff()
    payoff.load_state_dict(found["league"]["payoff"])
    if not any(map(payoff.games, payoff.players)):
        raise ConfigError(
            f"league = {name}: nobody has played yet; expected a run that has reached its league; "
            "train it further"
        )
    return path, payoff


def league_table(payoff: Payoff) -> str:
    """Payoff matrix and ratings."""
    width = shutil.get_terminal_size((100, 24)).columns
    title = "score of row against column (a draw counts half), games in brackets"
    idle = [name for name in payoff.players if not payoff.games(name)]
    shown = Payoff()
    shown.load_state_dict(payoff.state_dict())
    for name in idle:
        shown.remove(name)
    left_out = f"no games yet: {', '.join(idle)}\n" if idle else ""
    return f"{title}\n{shown.table(width)}\n{left_out}\n{ratings_table(payoff)}"


def league_record(payoff: Payoff) -> dict[str, Any]:
    """The same as plain numbers."""
    ratings = {name: rating._asdict() for name, rating in _ratings(payoff).items()}
    return {"league": payoff.state_dict(), "ratings": ratings}


def ratings_table(payoff: Payoff) -> str:
    """Strengths on the Elo scale with 95 % intervals, strongest first, and what they leave open."""
    played = _ratings(payoff)
    wide = max(len(name) for name in played)
    lines = [f"{'pilot':<{wide}}  rating   95 % interval   games"]
    groups = sorted({rating.group for rating in played.values()})
    for group in groups:
        if group != groups[0]:
            lines.append(
                "no chain of games leads from those above to those below: do not compare them"
            )
        mine = [(name, rating) for name, rating in played.items() if rating.group == group]
        lines += [
            f"{name:<{wide}}  {_strength(rating)} {rating.games:>8.0f}"
            for name, rating in sorted(mine, key=lambda item: -item[1].points)
        ]
    open_share = unexplained(payoff)
    lines.append(
        f"cycles: {100 * open_share.share:.0f} % of the differences are not explained by these ratings "
        f"({100 * open_share.chance:.0f} % by chance alone)"
    )
    return "\n".join(lines) + "\n"


def _strength(rating: Rating) -> str:
    """Points and interval; of a few games, which are mostly the prior's, none."""
    if rating.games < _LEAST_GAMES:
        return f"{'-':>6}   {f'under {_LEAST_GAMES} games':<15}"
    return f"{rating.points:6.0f}   {rating.low:6.0f} .. {rating.high:<5.0f}"


def _ratings(payoff: Payoff) -> dict[str, Rating]:
    """Of everybody who has played."""
    return {name: rating for name, rating in bradley_terry(payoff).items() if rating.games}
