"""Bradley-Terry ratings: by hand, against Zermelo's iteration, and of players of known strength."""

import math
import random
from itertools import combinations, pairwise

import pytest

from navrl.selfplay import strengths
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.strengths import bradley_terry

POINTS_PER_NAT = 400.0 / math.log(10.0)
Z = 1.959964  # two-sided 95 % of the normal distribution, from its table
TRUE = {"a": 870.0, "b": 990.0, "c": 1120.0, "d": 750.0, "e": 1270.0}  # on average 1000
GAMES = {
    "ab": 40,
    "ac": 80,
    "bc": 60,
    "ad": 100,
    "bd": 30,
    "ce": 120,
    "be": 50,
}  # not a-e, c-d, d-e


def league(results):
    """A payoff from {"ab": (wins, draws, losses)}."""
    payoff = Payoff(sorted(set("".join(results))))
    for (row, column), counts in results.items():
        payoff.record(row, column, *counts)
    return payoff


def played(rng, draw_share):
    """Games of the logistic model; a draw takes equally from both sides, so scores stay true."""
    results = {}
    for pair, games in GAMES.items():
        win = 1.0 / (1.0 + 10.0 ** ((TRUE[pair[1]] - TRUE[pair[0]]) / 400.0))
        draw = 2.0 * draw_share * min(win, 1.0 - win)
        luck = [rng.random() for _ in range(games)]
        wins = sum(u < win - draw / 2.0 for u in luck)
        losses = sum(u >= win + draw / 2.0 for u in luck)
        results[pair] = (wins, games - wins - losses, losses)
    return league(results)


def coverage(repeats, draw_share=0.0):
    """Of how many repeats the interval of each player holds its true strength."""
    rng = random.Random(20)
    inside = dict.fromkeys(TRUE, 0)
    for _ in range(repeats):
        for player, rating in bradley_terry(played(rng, draw_share)).items():
            inside[player] += rating.low <= TRUE[player] <= rating.high
    return {player: count / repeats for player, count in inside.items()}


def zermelo(payoff):
    """Maximum likelihood by the fixed point of 1929: slow, plain, and without any derivative."""
    players = payoff.players
    worth = dict.fromkeys(players, 1.0)
    for _ in range(20000):
        for one in players:
            others = [other for other in players if payoff.results(one, other).games]
            score = sum(payoff.results(one, other).score for other in others)
            faced = sum(
                payoff.results(one, other).games / (worth[one] + worth[other]) for other in others
            )
            worth[one] = score / faced
    points = {player: POINTS_PER_NAT * math.log(value) for player, value in worth.items()}
    mean = sum(points.values()) / len(points)
    return {player: 1000.0 + value - mean for player, value in points.items()}


@pytest.mark.parametrize(("wins", "games"), [(5, 10), (9, 10), (640, 1000), (1, 50)])
def test_two_players_by_hand(wins, games):
    # the difference is 400 log10(w / l) and the variance of a log odds is 1 / w + 1 / l; half of both each
    losses = games - wins
    rated = bradley_terry(league({"ab": (wins, 0, losses)}), prior_games=0.0)
    half = 200.0 * math.log10(wins / losses)
    margin = Z * POINTS_PER_NAT * math.sqrt(1.0 / wins + 1.0 / losses) / 2.0
    for player, sign in (("a", 1.0), ("b", -1.0)):
        points = 1000.0 + sign * half
        assert rated[player][:3] == pytest.approx((points, points - margin, points + margin))
        assert rated[player][3:] == (games, 0)


def test_draws_are_half_wins():
    drawn, won = league({"ab": (6, 4, 2)}), league({"ab": (8, 0, 4)})
    assert bradley_terry(drawn) == bradley_terry(won)


def lead(rated, one, other):
    return rated[one].points - rated[other].points


def test_a_chain_adds_differences_and_variances():
    rated = bradley_terry(league({"ab": (30, 0, 10), "bc": (24, 0, 16)}), prior_games=0)
    assert lead(rated, "a", "c") == pytest.approx(400.0 * math.log10(30 / 10 * 24 / 16))
    # a is a third of (2 (a - b) + (b - c)) above the mean
    variance = (4.0 * (1 / 30 + 1 / 10) + 1 / 24 + 1 / 16) / 9.0
    margin = Z * POINTS_PER_NAT * math.sqrt(variance)
    assert rated["a"].high - rated["a"].points == pytest.approx(margin, rel=1e-6)
    assert [rated[player].games for player in "abc"] == [40, 80, 40]


def test_a_triangle_of_equals_by_hand():
    # the information is n / 4 (3 I - J), its pseudo-inverse 4 / (3 n) (I - J / 3),
    # so the variance of each is 8 / (9 n)
    even = league({"ab": (8, 4, 8), "bc": (10, 0, 10), "ac": (0, 20, 0)})
    rated = bradley_terry(even, prior_games=0.0)
    assert rated["c"].points == pytest.approx(1000.0)
    margin = Z * POINTS_PER_NAT * math.sqrt(8.0 / (9.0 * 20.0))
    assert rated["c"].high - 1000.0 == pytest.approx(margin, rel=1e-6)


def test_the_prior_by_hand():
    # a shares its half game over b alone, and b half of its own: 0.75 imagined games of a-b
    rated = bradley_terry(league({"ab": (10, 0, 0), "bc": (10, 0, 0)}))
    gap = 400.0 * math.log10(10.375 / 0.375)
    assert [rated[player].points for player in "abc"] == pytest.approx(
        [1000 + gap, 1000, 1000 - gap]
    )
    two = bradley_terry(league({"ab": (10, 0, 0)}), prior_games=2.0)
    assert lead(two, "a", "b") == pytest.approx(400.0 * math.log10(11.0))


def test_ratings_are_zermelos():
    payoff = played(random.Random(5), draw_share=0.2)
    expected = zermelo(payoff)
    for player, rating in bradley_terry(payoff, prior_games=0.0).items():
        assert rating.points == pytest.approx(expected[player], abs=1e-6)


def test_intervals_hold_the_truth_at_the_nominal_rate():
    # 3.5 standard deviations of a share of 0.95 in 500 repeats are 0.034
    found = coverage(repeats=500)
    assert all(0.916 <= share <= 0.984 for share in found.values()), found


def test_with_draws_intervals_err_on_the_wide_side():
    found = coverage(repeats=200, draw_share=0.6)
    assert all(share >= 0.95 for share in found.values()), found


def test_estimates_centre_on_the_truth():
    rng = random.Random(9)
    sums = dict.fromkeys(TRUE, 0.0)
    for _ in range(200):
        for player, rating in bradley_terry(played(rng, 0.0)).items():
            sums[player] += rating.points / 200.0
    # the widest interval is +-89 points: 3.5 standard deviations of a mean of 200 are 11.2
    assert sums == pytest.approx(TRUE, abs=11.2)


def test_groups_that_never_met_are_rated_apart():
    payoff = league({"ab": (9, 0, 1), "cd": (1, 0, 9)})
    payoff.add("e")
    rated = bradley_terry(payoff, prior_games=0.0)
    half = 200.0 * math.log10(9.0)
    points = [rated[player].points for player in "abcd"]
    assert points == pytest.approx([1000 + half, 1000 - half, 1000 - half, 1000 + half])
    assert [rated[player].group for player in "abcde"] == [0, 0, 1, 1, 2]
    assert math.isnan(rated["e"].points)
    assert rated["e"][1:] == (-math.inf, math.inf, 0, 2)
    assert bradley_terry(Payoff()) == {}


def test_perfect_scores_need_the_prior():
    # the first two beat the last two always: finite only with imagined draws
    blocks = {"ab": (3, 0, 2), "cd": (1, 1, 1), "ac": (5, 0, 0), "ad": (5, 0, 0), "bd": (5, 0, 0)}
    payoff = league(blocks)
    with pytest.raises(ValueError, match="no chain of wins leads from 'c' to 'a'"):
        bradley_terry(payoff, prior_games=0.0)
    rated = bradley_terry(payoff)
    assert min(rated["a"].points, rated["b"].points) > max(rated["c"].points, rated["d"].points)
    assert all(math.isfinite(bound) for rating in rated.values() for bound in rating)
    payoff.record("d", "a", 1, 0, 0)  # one upset closes the circle
    assert bradley_terry(payoff, prior_games=0.0)["a"].points < 2000.0


def test_a_long_ladder_of_perfect_scores_settles():
    # imagined games: 0.75 on the two outer rungs, whose end has one opponent, and 0.5 on the others
    names = [f"p{place:02d}" for place in range(20)]
    payoff = Payoff(names)
    for weaker, stronger in pairwise(names):
        payoff.record(stronger, weaker, 10**6, 0, 0)
    rated = bradley_terry(payoff)
    end, inside = math.log10((1e6 + 0.375) / 0.375), math.log10((1e6 + 0.25) / 0.25)
    assert lead(rated, "p01", "p00") == pytest.approx(400.0 * end)
    assert lead(rated, "p19", "p00") == pytest.approx(400.0 * (2 * end + 17 * inside))


def test_a_lopsided_league_settles_where_scores_are_expected():
    # whole steps of Newton's method run away here
    payoff = league({
        "ab": (17866, 0, 0), "ac": (288390, 0, 0), "ad": (0, 0, 479139), "bc": (0, 0, 3258),
        "bd": (27, 0, 0), "be": (0, 0, 42572), "de": (191, 0, 269),
    })  # fmt: skip
    rated = bradley_terry(payoff)
    played = {one: sum(payoff.results(one, other).games for other in "abcde") for one in "abcde"}
    for one in "abcde":
        missing = 0.0
        for other in set("abcde") - {one}:
            results = payoff.results(one, other)
            imagined = results.games * (0.5 / played[one] + 0.5 / played[other])
            odds = 10.0 ** ((rated[other].points - rated[one].points) / 400.0)
            missing += results.score + imagined / 2.0
            missing -= (results.games + imagined) / (1.0 + odds)
        assert missing == pytest.approx(0.0, abs=1e-5)


def test_order_of_players_changes_nothing():
    payoff = played(random.Random(1), draw_share=0.1)
    other = Payoff(reversed(payoff.players))
    for row, column in combinations(payoff.players, 2):
        other.record(row, column, *payoff.results(row, column))
    rated, again = bradley_terry(payoff), bradley_terry(other)
    for player in payoff.players:
        assert rated[player] == pytest.approx(again[player], abs=1e-6)


def test_impossible_arguments_are_refused(monkeypatch):
    payoff = league({"ab": (9, 0, 1)})
    with pytest.raises(ValueError, match="prior_games = -1"):
        bradley_terry(payoff, prior_games=-1)
    monkeypatch.setattr(strengths, "_MAX_STEPS", 2)
    with pytest.raises(RuntimeError, match="did not settle in 2 steps"):
        bradley_terry(payoff)
