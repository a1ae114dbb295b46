"""Elo by hand."""

import random

import pytest

from navrl.selfplay.elo import Elo, Result, expected_score


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


def test_expected_scores_sum_to_one_and_never_overflow():
    assert expected_score(1e6, 0.0) == 1.0
    assert expected_score(0.0, 1e6) == 0.0
    assert expected_score(1234.0, 987.0) + expected_score(987.0, 1234.0) == pytest.approx(1.0)


def test_update_by_hand(elo):
    elo.update([Result("a", "b", 1.0)])
    assert elo.ratings == {"a": 1008.0, "b": 992.0, "c": 1000.0}
    # now 16 points apart: 1 / (1 + 10^(-16/400)) = 0.523011, and a draw costs the better one
    elo.update([Result("b", "a", 0.5)])
    assert elo.ratings["a"] == pytest.approx(1008.0 - 16.0 * 0.023011, abs=1e-4)


def test_games_count_one_after_the_other(elo):
    first, second = Result("a", "b", 1.0), Result("c", "a", 1.0)
    together, apart, swapped = Elo(), Elo(), Elo()
    for each in (together, apart, swapped):
        each.load_state_dict(elo.state_dict())
    together.update([first, second])
    apart.update([first])
    apart.update([second])
    swapped.update([second, first])
    assert together.ratings == apart.ratings
    # a is at 1008 when it loses; in the other order at 992 when it wins
    gain = 16.0 / (1.0 + 10.0 ** (-8.0 / 400.0))
    assert together.ratings["a"] == pytest.approx(1008.0 - gain)
    assert swapped.ratings["a"] == pytest.approx(992.0 + gain)


def test_the_sum_is_conserved(elo):
    rng = random.Random(3)
    games = [Result(*rng.sample("abc", 2), rng.choice([0.0, 0.5, 1.0])) for _ in range(3000)]
    elo.update(games)
    assert sum(elo.ratings.values()) == pytest.approx(3000.0, abs=1e-8)
    assert max(elo.ratings.values()) - min(elo.ratings.values()) > 1.0


def test_many_games_settle_where_the_score_is_expected():
    # a scores 10 of 11 for ever: 400 points; the last few dozen games blur it
    elo = Elo(k=4.0)
    elo.add("a")
    elo.add("b")
    for _ in range(400):
        elo.update([Result("a", "b", float(game != 5)) for game in range(11)])
    assert elo.ratings["a"] - elo.ratings["b"] == pytest.approx(400.0, abs=10.0)


def test_newcomers_start_like_their_parent(elo):
    elo.update([Result("a", "b", 1.0)])
    elo.add("copy of a", parent="a")
    elo.add("d")
    assert (elo.ratings["copy of a"], elo.ratings["d"]) == (1008.0, 1000.0)
    elo.update([Result("a", "b", 1.0)])
    assert elo.ratings["copy of a"] == 1008.0
    elo.remove("a")
    assert list(elo.ratings) == ["b", "c", "copy of a", "d"]


def test_state_is_a_copy(elo):
    state = elo.state_dict()
    elo.update([Result("a", "b", 1.0)])
    assert state == {"a": 1000.0, "b": 1000.0, "c": 1000.0}
    elo.load_state_dict(state)
    copy = elo.state_dict()
    elo.remove("c")
    assert "c" in state
    assert "c" in copy
    elo.update([Result("a", "b", 0.0)])
    assert elo.ratings["a"] == 992.0


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
