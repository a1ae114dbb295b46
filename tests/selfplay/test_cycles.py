"""Rock, paper, scissors, and leagues that only look like it."""

import math
import random
from itertools import combinations, pairwise

import pytest

from navrl.selfplay.cycles import unexplained
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.strengths import bradley_terry

STRENGTHS = {"a": 0.0, "b": 0.5, "c": 1.0, "d": -0.7, "e": 1.6}  # nats


def cycle(wins, losses):
    """rock beats scissors, scissors beat paper, paper beats rock."""
    payoff = Payoff(["rock", "paper", "scissors"])
    payoff.record("rock", "scissors", wins, 0, losses)
    payoff.record("scissors", "paper", wins, 0, losses)
    payoff.record("paper", "rock", wins, 0, losses)
    return payoff


def transitive(rng, games):
    """A league in which one number per player explains everything but luck."""
    payoff = Payoff(STRENGTHS)
    for row, column in combinations(STRENGTHS, 2):
        win = 1.0 / (1.0 + math.exp(STRENGTHS[column] - STRENGTHS[row]))
        wins = sum(rng.random() < win for _ in range(games))
        payoff.record(row, column, wins, 0, games - wins)
    return payoff


@pytest.mark.parametrize(("wins", "losses"), [(10, 0), (60, 40)])
def test_a_cycle_has_equal_ratings_that_explain_nothing(wins, losses):
    payoff = cycle(wins, losses)
    points = [rating.points for rating in bradley_terry(payoff).values()]
    assert points == pytest.approx([1000.0] * 3)
    found = unexplained(payoff)
    assert found.share == pytest.approx(1.0)
    assert found.worst.predicted == pytest.approx(0.5)
    assert found.worst.observed in (wins / (wins + losses), losses / (wins + losses))


def test_chance_by_hand():
    # a cycle of 10:0 lies 2 * 30 * ln 2 from a league of equals; 3 pairs less 2 ratings leave 1
    assert unexplained(cycle(10, 0)).chance == pytest.approx(1.0 / (60.0 * math.log(2.0)))


@pytest.mark.parametrize("results", [(9, 0, 1), (10, 0, 0), (3, 3, 3), (33333, 0, 66667)])
def test_two_players_are_always_explained(results):
    payoff = Payoff(["a", "b"])
    payoff.record("a", "b", *results)
    found = unexplained(payoff)
    assert 0.0 <= found.share < 1e-4
    assert found.chance == 0.0
    assert found.worst.games == sum(results)


def test_chance_is_at_most_everything():
    # 11:9 once, even else: the whole deviance is 0.2, less than the 1 that luck leaves on average
    payoff = Payoff("abc")
    for pair, results in {"ab": (11, 0, 9), "bc": (10, 0, 10), "ac": (10, 0, 10)}.items():
        payoff.record(*pair, *results)
    found = unexplained(payoff)
    assert found.chance == 1.0
    # least squares around even: a third of the one deviation belongs to the cycle
    assert found.share == pytest.approx(1.0 / 3.0, abs=2e-3)


@pytest.mark.parametrize("games", [100, 10**10])
def test_a_ladder_of_perfect_scores_is_explained(games):
    payoff = Payoff(str(place) for place in range(40))
    for weaker, stronger in pairwise(payoff.players):
        payoff.record(stronger, weaker, games, 0, 0)
    assert unexplained(payoff).share == pytest.approx(0.0, abs=1e-4)
    # one upset between the ends is too improbable for a float; it is the pair that stands out
    payoff.record("0", "39", 1, 0, 0)
    found = unexplained(payoff)
    assert (found.worst.row, found.worst.column, found.worst.observed) == ("0", "39", 1.0)
    assert 0.0 < found.share < 1.0


def test_exact_logistic_win_rates_are_explained():
    # strengths 1 : 2 : 4 give odds of 1 : 2, 2 : 4 and 1 : 4
    payoff = Payoff("abc")
    payoff.record("a", "b", 100, 0, 200)
    payoff.record("b", "c", 100, 0, 200)
    payoff.record("a", "c", 60, 0, 240)
    assert unexplained(payoff).share < 1e-6


def test_luck_alone_leaves_what_chance_says():
    rng = random.Random(4)
    found = [unexplained(transitive(rng, games=60)) for _ in range(200)]
    # left over: chi squared with 10 - 4 degrees, mean 6 and standard deviation sqrt(12);
    # the mean of 200 is known to 4 %, three times that is 12 %
    ratio = sum(one.share / one.chance for one in found) / len(found)
    assert ratio == pytest.approx(1.0, abs=0.12)


def test_a_planted_cycle_is_found_in_a_league():
    payoff = transitive(random.Random(6), games=400)
    before = unexplained(payoff)
    assert before.share < 3.0 * before.chance
    payoff.add("nemesis")  # even with everybody but the strongest, whom it beats
    for other in "abcd":
        payoff.record("nemesis", other, 200, 0, 200)
    payoff.record("nemesis", "e", 380, 0, 20)
    after = unexplained(payoff)
    assert after.share > 10.0 * after.chance
    assert {after.worst.row, after.worst.column} == {"e", "nemesis"}
    assert after.worst.observed == 0.05  # of e, who comes first
    assert after.worst.predicted > 0.4


def test_a_league_that_has_not_played_is_refused():
    with pytest.raises(ValueError, match="expected at least one game"):
        unexplained(Payoff(["a", "b"]))
