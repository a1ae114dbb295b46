"""What `navrl evaluate league=<run>` prints: who beat whom, and how strong that makes everybody."""

from __future__ import annotations

import shutil
from typing import Any

from navrl.checkpoint import find, load
from navrl.config import ConfigError
from navrl.ratings import Payoff, bradley_terry, unexplained
from navrl.subject import OUTPUTS


def league_table(name: str) -> str:
    """Payoff matrix and ratings of the league in a run's newest checkpoint."""
    path = find(name, OUTPUTS)
    found: Any = load(path).get("curriculum") or {}
    if "league" not in found:
        raise ConfigError(
            f"league = {name}: the run has no league; expected one trained with curriculum=league or "
            "curriculum=cold_start; change league"
        )
    payoff = Payoff()
    payoff.load_state_dict(found["league"]["payoff"])
    if not any(
        payoff.results(a, b).games for a in payoff.players for b in payoff.players if a != b
    ):
        raise ConfigError(
            f"league = {name}: nobody has played yet; expected a run that has reached its league; "
            "train it further"
        )
    width = shutil.get_terminal_size((100, 24)).columns
    return (
        f"{path}\n\nrow beats column, games in brackets\n{payoff.table(width)}\n{ratings(payoff)}"
    )


def ratings(payoff: Payoff) -> str:
    """Strengths on the Elo scale with 95 % intervals, strongest first, and what they leave open."""
    found = bradley_terry(payoff)
    played = {name: rating for name, rating in found.items() if rating.games}
    ranked = sorted(played.items(), key=lambda item: -item[1].points)
    wide = max(len(name) for name in played)
    lines = [f"{'pilot':<{wide}}  rating   95 % interval   games"]
    lines += [
        f"{name:<{wide}}  {r.points:6.0f}   {r.low:6.0f} .. {r.high:<5.0f} {r.games:>8.0f}"
        for name, r in ranked
    ]
    open_share = unexplained(payoff)
    lines.append(
        f"cycles: {100 * open_share.share:.0f} % of the differences are not explained by these ratings "
        f"({100 * open_share.chance:.0f} % by chance alone)"
    )
    return "\n".join(lines) + "\n"
