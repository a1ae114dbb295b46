"""Counts of games: book-keeping for both sides, groups, what is stored and what is shown."""

import json

import pytest

from navrl.selfplay.payoff import Payoff, Record


@pytest.fixture
def payoff():
    """a has 6 wins, 2 draws and 2 losses against b; c has not played."""
    payoff = Payoff(["a", "b", "c"])
    payoff.record("a", "b", 5, 2, 0)
    payoff.record("b", "a", 2, 0, 1)
    return payoff


def test_games_of_one_side_are_games_of_the_other(payoff):
    assert payoff.results("a", "b") == Record(wins=6, draws=2, losses=2)
    assert payoff.results("b", "a") == Record(wins=2, draws=2, losses=6)
    assert payoff.results("a", "b").games == payoff.results("b", "a").games == 10
    assert payoff.results("a", "b").score == 7.0
    assert payoff.results("a", "c").games == 0


def test_win_rate_by_hand(payoff):
    # (6 + 2 / 2) / 10, and with two imagined draws (7 + 1) / 12
    assert payoff.score("a", "b", prior_games=0.0) == 0.7
    assert payoff.score("a", "b") == pytest.approx(8 / 12)
    assert payoff.score("b", "a") == pytest.approx(4 / 12)


def test_removing_a_player_forgets_its_games(payoff):
    payoff.record("c", "b", 3, 0, 0)
    payoff.remove("a")
    assert payoff.players == ("b", "c")
    payoff.add("a")
    assert payoff.players == ("b", "c", "a")
    assert payoff.results("a", "b").games == payoff.results("b", "a").games == 0
    assert payoff.results("b", "c") == Record(0, 0, 3)


def test_groups_are_joined_by_chains_of_games():
    payoff = Payoff("abcdef")
    payoff.record("e", "a", 1, 0, 0)
    payoff.record("c", "d", 0, 1, 0)
    payoff.record("b", "f", 0, 0, 0)  # no game is no comparison
    assert payoff.groups() == [["a", "e"], ["b"], ["c", "d"], ["f"]]
    payoff.record("d", "a", 0, 0, 1)
    assert payoff.groups() == [["a", "c", "d", "e"], ["b"], ["f"]]


def test_state_survives_json(payoff):
    assert payoff.state_dict() == {"players": ["a", "b", "c"], "games": [["a", "b", 6, 2, 2]]}
    loaded = Payoff(["other"])
    loaded.load_state_dict(json.loads(json.dumps(payoff.state_dict())))
    assert loaded.state_dict() == payoff.state_dict()
    assert loaded.results("b", "a") == Record(2, 2, 6)
    loaded.record("c", "a", 1, 0, 0)  # a copy: the original does not see it
    assert payoff.results("c", "a").games == 0


@pytest.mark.parametrize("game", [["a", "b", -1, 0, 0], ["a", "b", 1.5, 0, 0], ["a", "x", 1, 0, 0]])
def test_a_malformed_state_changes_nothing(payoff, game):
    before = payoff.state_dict()
    with pytest.raises(ValueError, match="expected"):
        payoff.load_state_dict({"players": ["a", "b"], "games": [game]})
    assert payoff.state_dict() == before


@pytest.mark.parametrize("player", ["", "a", "two\nlines"])
def test_names_are_printable_and_unique(payoff, player):
    with pytest.raises(ValueError, match="cannot be added; expected a name"):
        payoff.add(player)


def test_nobody_plays_itself_or_a_stranger(payoff):
    with pytest.raises(ValueError, match="two different players"):
        payoff.record("a", "a", 1, 0, 0)
    for call in (lambda: payoff.record("a", "x", 1, 0, 0), lambda: payoff.remove("x")):
        with pytest.raises(ValueError, match="player 'x' is unknown"):
            call()


def test_table_by_hand(payoff):
    assert payoff.table().split("\n") == [
        "            1         2  3",
        "1 a         -  70% (10)  -",
        "2 b  30% (10)         -  -",
        "3 c         -         -  -",
    ]
