"""Self-play against former selves: league, payoff matrix and ratings."""

from navrl.selfplay.league import SelfPlay

__all__ = ["SelfPlay"]
