"""Ratings: Elo by hand, Bradley-Terry against Zermelo's iteration, and cycles that no rating explains."""

import math
import random
from itertools import combinations

import pytest

from navrl.selfplay import ratings
from navrl.selfplay.payoff import Payoff
from navrl.selfplay.ratings import Elo, Result, bradley_terry, cycles, expected_score

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
STRENGTHS = {"a": 0.0, "b": 0.5, "c": 1.0, "d": -0.7, "e": 1.6}  # nats


@pytest.fixture
def elo():
    """Three players at 1000."""
    elo = Elo()
    for player in "abc":
        elo.add(player)
    return elo


@pytest.mark.parametrize(
    ("difference", "expected"),
    [(0.0, 1 / 2), (400.0, 10 / 11), (-400.0, 1 / 11), (800.0, 100 / 101), (200.0, 0.759747)],
)
def test_expected_score_by_hand(difference, expected):
    assert expected_score(1000.0 + difference, 1000.0) == pytest.approx(expected, abs=1e-6)


def test_update_by_hand(elo):
    elo.update([Result("a", "b", 1.0)])
    assert elo.ratings == {"a": 1008.0, "b": 992.0, "c": 1000.0}
    # now 16 points apart: 1 / (1 + 10^(-16/400)) = 0.523011, and a draw costs the better one
    elo.update([Result("b", "a", 0.5)])
    assert elo.ratings["a"] == pytest.approx(1008.0 - 16.0 * 0.023011, abs=1e-4)


def test_the_sum_is_conserved(elo):
    rng = random.Random(3)
    games = [Result(*rng.sample("abc", 2), rng.choice([0.0, 0.5, 1.0])) for _ in range(3000)]
    elo.update(games)
    assert sum(elo.ratings.values()) == pytest.approx(3000.0, abs=1e-8)
    assert max(elo.ratings.values()) - min(elo.ratings.values()) > 1.0


def test_newcomers_start_like_their_parent(elo):
    elo.update([Result("a", "b", 1.0)])
    elo.add("copy of a", parent="a")
    elo.add("d")
    assert (elo.ratings["copy of a"], elo.ratings["d"]) == (1008.0, 1000.0)
    elo.update([Result("a", "b", 1.0)])
    assert elo.ratings["copy of a"] == 1008.0
    elo.remove("a")
    assert list(elo.ratings) == ["b", "c", "copy of a", "d"]


@pytest.mark.parametrize(
    "bad", [Result("a", "x", 1.0), Result("a", "a", 1.0), Result("a", "b", 2.0)]
)
def test_a_malformed_game_changes_nothing(elo, bad):
    with pytest.raises(ValueError, match="two different players"):
        elo.update([Result("a", "b", 1.0), bad])
    assert elo.ratings == {"a": 1000.0, "b": 1000.0, "c": 1000.0}


def test_names_are_checked(elo):
    with pytest.raises(ValueError, match="has a rating already"):
        elo.add("a")
    for call in (lambda: elo.add("d", parent="x"), lambda: elo.remove("x")):
        with pytest.raises(ValueError, match="'x' has no rating"):
            call()


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


def interval_coverage(repeats, draw_share=0.0):
    """Return the share of repeats in which the interval of each player holds its true strength."""
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
    for _ in range(2000):
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
    found = interval_coverage(repeats=500)
    assert all(0.916 <= share <= 0.984 for share in found.values()), found


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


def test_impossible_arguments_are_refused(monkeypatch):
    payoff = league({"ab": (9, 0, 1)})
    with pytest.raises(ValueError, match="prior_games = -1"):
        bradley_terry(payoff, prior_games=-1)
    monkeypatch.setattr(ratings, "_MAX_STEPS", 2)
    with pytest.raises(RuntimeError, match="did not settle in 2 steps"):
        bradley_terry(payoff)


def rock_paper_scissors(wins, losses):
    """Return a league in which rock beats scissors, scissors beat paper, paper beats rock."""
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
    payoff = rock_paper_scissors(wins, losses)
    points = [rating.points for rating in bradley_terry(payoff).values()]
    assert points == pytest.approx([1000.0] * 3)
    found = cycles(payoff)
    assert found.share == pytest.approx(1.0)


def test_chance_by_hand():
    # a cycle of 10:0 lies 2 * 30 * ln 2 from a league of equals; 3 pairs less 2 ratings leave 1
    assert cycles(rock_paper_scissors(10, 0)).chance == pytest.approx(1.0 / (60.0 * math.log(2.0)))


def test_a_planted_cycle_is_found_in_a_league():
    payoff = transitive(random.Random(6), games=400)
    before = cycles(payoff)
    assert before.share < 3.0 * before.chance
    payoff.add("nemesis")  # even with everybody but the strongest, whom it beats
    for other in "abcd":
        payoff.record("nemesis", other, 200, 0, 200)
    payoff.record("nemesis", "e", 380, 0, 20)
    after = cycles(payoff)
    assert after.share > 10.0 * after.chance


def test_a_league_that_has_not_played_is_refused():
    with pytest.raises(ValueError, match="expected at least one game"):
        cycles(Payoff(["a", "b"]))
