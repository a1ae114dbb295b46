"""The tables of `navrl evaluate league=`."""

import json
from pathlib import Path

import pytest

import navrl.evaluate
from navrl.selfplay.league_table import league_record, league_table, ratings_table
from navrl.selfplay.payoff import Payoff
from navrl.storage.checkpoint import write_state
from tests.command_line import command

GAMES = [("ace", "bob", 30, 0, 10), ("bob", "cid", 24, 8, 8), ("ace", "cid", 36, 0, 4)]


def payoff(games=GAMES, players=("ace", "bob", "cid", "idle")):
    found = Payoff(players)
    for row, column, *counts in games:
        found.record(row, column, *counts)
    return found


def test_the_matrix_and_the_ratings():
    printed = league_table(payoff())
    matrix, ratings = printed.split("\n\n")[0].splitlines(), printed.split("\n\n")[1].splitlines()
    assert matrix[0] == "score of row against column (a draw counts half), games in brackets"
    rows = {line.split()[1]: line for line in matrix[2:]}
    assert list(rows) == ["ace", "bob", "cid", "games"], "who has not played has no row"
    assert matrix[-1] == "no games yet: idle"
    assert "75% (40)" in rows["ace"]
    assert "90% (40)" in rows["ace"]
    assert "70% (40)" in rows["bob"]  # 24 wins and 8 half wins of 40
    assert [line.split()[0] for line in ratings[1:4]] == ["ace", "bob", "cid"], "strongest first"
    assert ratings[1].split()[-1] == "80"
    assert "idle" not in "".join(ratings)
    assert ratings[-1].startswith("cycles: ")


def test_strangers_are_not_compared():
    printed = ratings_table(
        payoff([("ace", "bob", 3, 0, 1), ("cid", "dan", 3, 0, 1)], ("ace", "bob", "cid", "dan"))
    ).splitlines()
    assert [line.split()[0] for line in printed[1:6]] == ["ace", "bob", "no", "cid", "dan"]
    assert "do not compare them" in printed[3]


def test_a_single_game_gives_no_rating():
    games = [("ace", "bob", 10, 0, 0), ("cid", "ace", 1, 0, 0)]
    printed = ratings_table(payoff(games, ("ace", "bob", "cid"))).splitlines()[1:4]
    rows = {line.split()[0]: line.split()[1:] for line in printed}
    assert rows["cid"] == ["-", "under", "10", "games", "1"]
    assert float(rows["ace"][0]) > float(rows["bob"][0])


def test_the_record_holds_the_numbers():
    record = json.loads(json.dumps(league_record(payoff())))
    assert record["league"]["games"] == [list(row) for row in sorted(GAMES)]
    assert set(record["ratings"]) == {"ace", "bob", "cid"}
    ace = record["ratings"]["ace"]
    assert ace["low"] < ace["points"] < ace["high"]
    assert ace["games"] == 80


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(curriculum state or None) -> a run of that state in outputs/run."""
    monkeypatch.chdir(tmp_path)

    def make(state):
        folder = Path("outputs/run/checkpoints")
        folder.mkdir(parents=True)
        content = {} if state is None else {"curriculum": state}
        write_state(folder / "step_000000000128.ckpt", content, frames=128, score=None)
        (folder.parent / "config.yaml").write_text("")

    return make


def test_the_command_prints_and_writes(run, capsys):
    run({"league": {"payoff": payoff().state_dict()}})
    assert command(navrl.evaluate.main, "league=run", "output=league.json") == 0
    printed = capsys.readouterr().out
    assert league_table(payoff()) in printed
    written = json.loads(Path("league.json").read_text())
    assert written["league"] == league_record(payoff())["league"]
    assert written["checkpoint"].endswith("step_000000000128.ckpt")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            None,
            "league = run: the run has no league; expected one trained with curriculum=league or",
        ),
        ({}, "league = run: the run has no league"),
        ({"league": {"payoff": Payoff("ab").state_dict()}}, "no games yet; expected a run"),
    ],
)
def test_a_run_without_a_league_is_one_sentence(run, capsys, tmp_path, state, sentence):
    run(state)
    before = sorted(tmp_path.rglob("*"))
    assert command(navrl.evaluate.main, "league=run") != 0
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert sentence in lines[0]
    assert sorted(tmp_path.rglob("*")) == before
