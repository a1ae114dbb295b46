"""The tables that `navrl evaluate league=<run>` prints: results of all pairs, and ratings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from navrl.config.checks import ConfigError
from navrl.selfplay.payoff import Payoff, check_results
from navrl.selfplay.ratings import Rating, bradley_terry, cycles
from navrl.storage.checkpoint import load
from navrl.storage.schema import loading

_LEAST_GAMES = 10


def load_league(path: Path, name: str) -> Payoff:
    """Return the payoff matrix in a checkpoint of the run that the user called `name`."""
    with loading(str(path)):
        return league_of(load(path), name)


def league_of(state: dict[str, Any], name: str) -> Payoff:
    """Return the payoff matrix in the state of a run."""
    found = state.get("curriculum")
    league = found.get("league") if isinstance(found, dict) else None
    if not isinstance(league, dict):
        raise ConfigError(
            f"league = {name}: the run has no league; expected one trained with curriculum=league or "
            "curriculum=cold_start; change league"
        )
    check_results(league.get("payoff"), "curriculum/league/payoff")
    payoff = Payoff()
    payoff.load_state_dict(league["payoff"])
    if not any(map(payoff.games, payoff.players)):
        raise ConfigError(
            f"league = {name}: no games yet; expected a run that has reached its league; "
            "train it further"
        )
    return payoff


def league_table(payoff: Payoff) -> str:
    """Return the payoff matrix and the ratings as text."""
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
    """Return the payoff matrix and the ratings as plain data."""
    ratings = {name: rating._asdict() for name, rating in _ratings(payoff).items()}
    return {"league": payoff.state_dict(), "ratings": ratings}


def ratings_table(payoff: Payoff) -> str:
    """Return strengths on the Elo scale with 95 % intervals, strongest first, and the share of cycles."""
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
    unexplained = cycles(payoff)
    lines.append(
        f"cycles: {100 * unexplained.share:.0f} % of the differences are not explained by these ratings "
        f"({100 * unexplained.chance:.0f} % by chance alone)"
    )
    return "\n".join(lines) + "\n"


def _strength(rating: Rating) -> str:
    """Return points and interval; none of a few games, which mostly show the prior."""
    if rating.games < _LEAST_GAMES:
        return f"{'-':>6}   {f'under {_LEAST_GAMES} games':<15}"
    return f"{rating.points:6.0f}   {rating.low:6.0f} .. {rating.high:<5.0f}"


def _ratings(payoff: Payoff) -> dict[str, Rating]:
    """Return the ratings of all players with games."""
    return {name: rating for name, rating in bradley_terry(payoff).items() if rating.games}
