"""The tournament command: its tables add up, its files agree, and anything wrong is one sentence."""

import functools
import json
import re

import pytest

import navrl.commands.tournament
import navrl.train
from navrl.commands.tournament import Result, markdown, standings
from tests.command_line import command

pytestmark = pytest.mark.commands

SHORT = ("num_episodes=12", "env.sim.time_limit_s=60", "env.sim.tick_s=0.25")


@pytest.fixture
def tournament(run):
    """tournament(*arguments) -> (exit code, printed text)."""
    return functools.partial(run, navrl.commands.tournament.main)


def test_three_pilots_play_three_pairs(tournament, tmp_path):
    files = ("--json", "t.json", "--markdown", "t.md", "--svg", "t.svg")
    code, printed = tournament("pilots=straight,crank,phase2", *files, *SHORT)
    assert code == 0, printed.err
    found = json.loads((tmp_path / "t.json").read_text())
    pairs = [(result["row"], result["column"]) for result in found["results"]]
    assert pairs == [("straight", "crank"), ("straight", "phase2"), ("crank", "phase2")]
    for result in found["results"]:
        assert result["wins"] + result["draws"] + result["losses"] == 12
        assert 0.0 < result["length_s"] <= 60.0
    shot = found["results"][0]
    assert (shot["wins"], shot["row_launches"]) == (0, 0.0)
    assert shot["losses"] > 6
    assert 0.5 < shot["column_launches"] <= 1.0
    ratings = found["ratings"]
    assert ratings["straight"]["points"] < min(ratings[n]["points"] for n in ("crank", "phase2"))
    table = (tmp_path / "t.md").read_text()
    assert table in printed.out
    assert re.search(r"^\| straight +\| +\| 0 / \d+ / \d+ +\|", table, re.MULTILINE)
    assert (tmp_path / "t.svg").read_text().startswith("<svg")
    progress = printed.err.splitlines()
    assert [line.split(" | ")[:2] for line in progress] == [
        ["pair 1/3", "straight against crank"],
        ["pair 2/3", "straight against phase2"],
        ["pair 3/3", "crank against phase2"],
    ]
    assert re.search(r"\| eta \d+:\d\d$", progress[-1])


def test_ctrl_c_shows_the_pairs_that_were_played(tournament, tmp_path, monkeypatch):
    played, play = [], navrl.commands.tournament.play_both_ways

    def twice(*arguments):
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append(arguments)
        return play(*arguments)

    monkeypatch.setattr(navrl.commands.tournament, "play_both_ways", twice)
    code, printed = tournament("pilots=straight,crank,pursuit,random", "--json", "t.json", *SHORT)
    assert code == 130
    assert printed.err.splitlines()[-1] == "navrl: 2 of 6 pairs played, no file written"
    rows = [line.split("|")[1].strip() for line in printed.out.splitlines() if line.startswith("|")]
    assert rows[:5] == [
        "win / draw / loss, %",
        "-" * len(printed.out.splitlines()[2].split("|")[1]),
        "straight",
        "crank",
        "pursuit",
    ]
    assert list(tmp_path.iterdir()) == []


def test_variants_and_options_of_the_fight_count(tournament, tmp_path):
    variant = ("variants.shy=crank", "variants.shy.fire_fraction=[0.01,0.02]")
    pilots = ("pilots=straight,crank", "--json", "t.json")
    code, printed = tournament("env.sim.time_limit_s=30", *pilots, "num_episodes=4", *variant)
    assert code == 0, printed.err
    found = json.loads((tmp_path / "t.json").read_text())
    games = {(r["row"], r["column"]): r for r in found["results"]}
    assert games["straight", "shy"]["column_launches"] == 0.0
    assert max(r["length_s"] for r in found["results"]) <= 30.0
    assert found["overrides"] == ["env.sim.time_limit_s=30"]


def test_trained_policies_play_among_scripts(tournament, tmp_path, monkeypatch):
    """Each with the observation and action of its training; one policy ties with itself."""
    monkeypatch.chdir(tmp_path)
    tiny = ("experiment=debug", "logger=none", "console=none", "eval_opponents=[]")
    other = ("observation=entities", "action=discrete_fine", "env.sim.tick_s=0.25")
    run = ("total_frames=128", "hydra.run.dir=outputs/one")
    assert command(navrl.train.main, *tiny, *other, *run) == 0
    code, printed = tournament("pilots=straight,latest,outputs/one", "--json", "t.json", *SHORT)
    assert code == 0, printed.err
    found = json.loads((tmp_path / "t.json").read_text())
    games = {(r["row"], r["column"]): r for r in found["results"]}
    against = [games["straight", name] for name in ("latest", "outputs/one")]
    counts = [{k: v for k, v in game.items() if k != "column"} for game in against]
    assert counts[0] == counts[1]
    same = games["latest", "outputs/one"]
    assert same["wins"] + same["draws"] + same["losses"] == 12
    assert found["ratings"].keys() == {"straight", "latest", "outputs/one"}
    code, printed = tournament("pilots=crank,latest", "env.team_size=2")
    assert code == 2
    assert "pilots = " in printed.err
    assert printed.err.endswith("expected combat with 2; change pilots\n")


def test_the_default_is_everybody(tournament):
    code, printed = tournament("num_episodes=2", "env.sim.time_limit_s=2")
    assert code == 0, printed.err
    assert "pair 28/28 | phase3 against stg_rule" in printed.err


def test_the_tables_by_hand():
    results = [
        Result("a", "b", 30, 50, 20, 2.0, 1.0, 100.0),
        Result("a", "c", 100, 0, 0, 1.0, 0.0, 40.0),
        Result("b", "c", 100, 0, 0, 2.0, 0.0, 40.0),
    ]
    first, second = markdown(["a", "b", "c"], results).split("\n\n")
    assert first.splitlines() == [
        "| win / draw / loss, % | a            | b            | c           |",
        "|----------------------|--------------|--------------|-------------|",
        "| a                    |              | 30 / 50 / 20 | 100 / 0 / 0 |",
        "| b                    | 20 / 50 / 30 |              | 100 / 0 / 0 |",
        "| c                    | 0 / 0 / 100  | 0 / 0 / 100  |             |",
    ]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in second.splitlines()]
    assert [row[0] for row in rows[2:]] == ["a", "b", "c"]  # strongest first
    assert [row[2] for row in rows[2:]] == ["1.5", "1.5", "0.0"]
    payoff, ratings = standings(["a", "b", "c"], results)
    assert payoff.results("c", "a").losses == 100
    assert ratings["a"].points > ratings["b"].points > ratings["c"].points


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pilots=crank,cranky"], "did you mean 'crank'?"),
        (["pilots=crank,latest"], "has an intact checkpoint; train first"),
        (["pilots=crank,outputs/runn"], "pilots: no run, checkpoints directory or file is called"),
        (["pilots=crank,zoo:relay"], "pilots = zoo:relay: it is a run of env=coverage_relay"),
        (["pilots=crank,checkpoint"], "Unknown scripted policy 'checkpoint'"),
        (["pilots=crank,crank"], "expected two or more different names"),
        (["variants.bold.fire_fraction=1"], "expected variants.bold=<pilot>; add it"),
        (["variants.bold=crank", "variants.bold.fire_fractoin=[1,1]"], "did you mean"),
        (["num_episodes=1"], "expected a whole number, 2 or more; change num_episodes"),
        (["seed=-1"], "change seed"),
        (["--svg", "no/such/folder.svg"], "expected a file in an existing folder"),
        (["env=navigation"], "env=navigation is no air combat; expected env=combat; change env"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_anything_wrong_is_one_sentence(tournament, arguments, sentence):
    code, printed = tournament(*arguments)
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
