"""Who beats whom in a league, how strong that makes everybody, and whom to play next."""

from navrl.ratings.cycles import Comparison, Unexplained, unexplained
from navrl.ratings.elo import START, Elo, Result, expected_score
from navrl.ratings.matchmaking import pfsp_weights
from navrl.ratings.payoff import Payoff, Record
from navrl.ratings.strengths import Rating, bradley_terry

__all__ = [
    "START",
    "Comparison",
    "Elo",
    "Payoff",
    "Rating",
    "Record",
    "Result",
    "Unexplained",
    "bradley_terry",
    "expected_score",
    "pfsp_weights",
    "unexplained",
]
