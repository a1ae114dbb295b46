"""Runs with a curriculum: every stage resumes to the bit, and evaluated gates change nothing."""

import os
import re
import signal
from pathlib import Path
from unittest import mock

import pytest

import navrl.evaluate
import navrl.train
from navrl.storage.checkpoint import load, verify_or_warn, write_state
from navrl.storage.compare import differences
from navrl.storage.find import find
from tests.command_line import command, process
from tests.halting import STOP_AFTER, train_and_halt, untimed_rows

pytestmark = pytest.mark.commands

CONF = Path(__file__).parents[1] / "curriculum" / "conf"
TINY = (
    f"--config-dir={CONF}",
    *("experiment=debug", "logger=none", "eval_opponents=[]", "curriculum=tiny"),
    *("checkpoint.save_every=1", "checkpoint.keep_last=8"),
)
ITERATIONS = 8  # first until 2, second until 4, then the league
TOTAL = f"total_frames={128 * ITERATIONS}"


def train(name, *arguments, stop_after=-1):
    """A run in outputs/<name>; stopped by a signal after `stop_after` iterations."""
    with mock.patch.dict(os.environ, {STOP_AFTER: str(stop_after)}):
        return command(train_and_halt, *arguments, f"hydra.run.dir=outputs/{name}")


def state_of(name):
    """The newest checkpoint, without what a resume may leave in the configuration."""
    state = load(find(name, Path("outputs")))
    for option in ("resume", "console"):
        del state["config"][option]
    return state


def rows(name):
    return untimed_rows(Path("outputs") / name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which outputs/whole is a run that was never interrupted."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert train("whole", *TINY, TOTAL, "console=none") == 0
    return place


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_the_whole_run_goes_through_all_stages(here):
    stages = [row["curriculum/stage"] for row in rows("whole")]
    assert stages == [1.0] + 2 * [2.0] + 5 * [3.0], "the stage after the iteration"
    # A score belongs to the stage whose episodes it is of, which is that before the gate was evaluated.
    facts = [
        verify_or_warn(path) for path in sorted(Path("outputs/whole/checkpoints").glob("*.ckpt"))
    ]
    assert [found.stage for found in facts] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert verify_or_warn(find("outputs/whole/checkpoints/best", Path("outputs"))).stage == 2
    state = state_of("whole")["curriculum"]
    assert state["stage"] == "play"
    assert list(state["league"]["snapshots"]) == ["snapshot000", "snapshot001"]
    assert state["league"]["seated"][0] == "snapshot001"
    assert state["league"]["payoff"]["games"]
    last = rows("whole")[-1]
    assert {"league/elo", "league/snapshots", "league/score_pool", "league/score_scripts"} <= set(
        last
    )


@pytest.mark.parametrize("stop_after", [1, 3, 6], ids="{} iterations".format)
def test_every_stage_resumes_bit_for_bit(here, stop_after):
    """In the first lesson, in the second, and in the midst of the league."""
    name = f"stopped{stop_after}"
    begun = train(name, *TINY, TOTAL, "console=none", stop_after=stop_after)
    assert begun == 128 + signal.SIGTERM
    assert len(rows(name)) == stop_after
    if stop_after == 6:  # a process that has never seen the first half
        resumed = (f"resume=outputs/{name}", "console=lines")
        done = process(navrl.train.main, *resumed, folder=here)
        assert done.returncode == 0, done.stderr
        assert "lessons first, second, play; now 3 play" in done.stdout
        assert "| stage 3 play |" in done.stdout
    else:
        assert command(navrl.train.main, f"resume=outputs/{name}") == 0
    assert differences(state_of(name), state_of("whole")) == []
    assert rows(name) == rows("whole")


def test_the_console_prints_which_lesson_it_is(here, capsys):
    assert train("printed", *TINY, "total_frames=640", "console=lines") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "lessons first, second, play; now 1 first" in lines
    stages = [part for line in lines for part in line.split(" | ") if part.startswith("stage")]
    assert stages == ["stage 1 first", *2 * ["stage 2 second"], *2 * ["stage 3 play"]]
    learned = [line for line in lines if line.startswith("lesson '")]
    assert [line.partition(" frames:")[0] for line in learned] == [
        "lesson 'first' is learned after 256",
        "lesson 'second' is learned after 512",
    ]
    assert learned[1].endswith(" frames: next 'play'")
    evaluated = [line for line in lines if line.startswith("evaluated after ")]
    assert "lesson 1 'first' " in evaluated[0]
    assert evaluated[0].endswith(": passed")
    place = lines.index(learned[0])
    assert lines[place + 1].startswith("iter 2/5 |"), "above the line of its iteration"


def test_evaluate_prints_the_league_of_a_run(here, capsys):
    capsys.readouterr()
    assert command(navrl.evaluate.main, "league=outputs/whole") == 0
    printed = capsys.readouterr().out
    games = load(find("whole", Path("outputs")))["curriculum"]["league"]["payoff"]["games"]
    assert "score of row against column (a draw counts half), games in brackets" in printed
    for row, column, wins, draws, losses in games:
        rate = (wins + 0.5 * draws) / (wins + draws + losses)
        assert f"{rate:.0%} ({wins + draws + losses})" in printed
        for name in (row, column):
            (row_of,) = (r for r in printed.splitlines() if re.match(rf"{name} .* \d+$", r))
            assert (" .. " in row_of) == (int(row_of.split()[-1]) >= 10), "few games, no rating"


def test_the_documented_example_starts(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "curriculum.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "my_conf" / "curriculum" / "mine.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(example)
    options = ("experiment=debug", "logger=none", "eval_opponents=[]", "total_frames=128")
    mine = ("--config-dir=my_conf", "curriculum=mine", "hydra.run.dir=outputs/mine")
    assert command(navrl.train.main, *mine, *options, "num_envs=32") == 0
    config = load(find("mine", tmp_path / "outputs"))["config"]
    assert list(config["curriculum"]["lessons"]) == ["chase", "league"]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["curriculum=cold_start", "opponent=crank"],
            "needs opponent=league; got Crank; change opp",
        ),
        (["curriculum=league", "scenario=box10"], "scenarios have none; expected scenario=mixture"),
        (
            ["curriculum=league", "reward=standard"],
            "lessons.league.reward names 'draw'; expected some",
        ),
        (["eval_scenario=nowhere"], "Unknown scenario 'nowhere'; available: "),
        (
            ["opponent=checkpoint"],
            "opponent.checkpoint = latest: no run below outputs has an intact",
        ),
        (["opponent=checkpoint", "opponent.checkpoint=7"], "is called '7'"),
        (
            ["eval_opponents=[checkpoint]"],
            "expected scripted pilots; measure against a policy with",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_starts_nothing(
    tmp_path, monkeypatch, capsys, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    assert command(navrl.train.main, "experiment=debug", "logger=none", *arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("navrl: error: ")
    assert sentence in lines[0]
    assert list(tmp_path.glob("outputs/*/*")) == []


def files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (("opponent=crank",), "a curriculum needs opponent=league; got Crank"),
        (("curriculum=league",), "curriculum.lessons.league."),
        (
            ("~curriculum.lessons.play", "curriculum=tiny"),
            "the checkpoint is in lesson 'play'; expected",
        ),
    ],
)
def test_a_resume_with_another_curriculum_changes_nothing(here, capsys, chosen, sentence):
    before = files("outputs/whole")
    options = (f"--config-dir={CONF}", "resume=outputs/whole", "total_frames=2048")
    assert command(navrl.train.main, *options, *chosen) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert sentence in lines[0]
    assert files("outputs/whole") == before


def test_a_checkpoint_from_before_there_were_curricula_says_so(here, capsys):
    state = load(find("whole", Path("outputs")))
    del state["curriculum"]
    write_state(Path("old.ckpt"), state, frames=state["frames"], score=None)
    before = files("outputs")
    assert command(navrl.train.main, "resume=old.ckpt", "total_frames=2048") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(
        "navrl: error: old.ckpt holds no curriculum; expected a run of this version"
    )
    assert files("outputs") == before
