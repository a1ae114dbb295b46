"""The train command as a user runs it: a fresh process, a run directory, a resume that changes no bit."""

import json
import signal
import subprocess
import sys
import time

import pytest

import navrl.train
from navrl.config.compose import compose, conf_dir
from navrl.loggers.jsonl import read_metrics
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find
from tests.command_line import command, process
from tests.halting import STOP_AFTER, train_and_halt, untimed_rows

TINY = ("experiment=debug", "logger=none", "console=lines")


def train(folder, *arguments):
    """The train command in a process of its own, which has to succeed."""
    done = process(navrl.train.main, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done


def untimed(directory):
    return untimed_rows(directory / "outputs" / "latest")


@pytest.fixture(scope="module")
def straight_and_resumed(tmp_path_factory):
    """Six iterations in one process, and three plus three in two processes."""
    whole, halves = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("halves")
    options = (
        *(*TINY, "eval_opponents=[]", "eval_every=3", "eval_episodes=4", "seed=7"),
        *("checkpoint.save_every=3", "env.sim.tick_s=0.25", "env.sim.time_limit_s=10"),
    )
    train(whole, *options, "total_frames=768")
    # Interrupted, not shortened: the learning-rate schedule knows the length of the run.
    first = process(
        train_and_halt, *options, "total_frames=768", folder=halves, environment={STOP_AFTER: "3"}
    )
    second = train(halves, "resume=latest")
    return whole, halves, first, second


@pytest.mark.commands
def test_resume_continues_bit_for_bit(straight_and_resumed):
    whole, halves, *_ = straight_and_resumed
    expected, found = (load(find("latest", run / "outputs")) for run in (whole, halves))
    assert expected["iteration"] == 6
    for state in (expected, found):
        state["config"].pop("resume")
    assert differences(found, expected) == []


@pytest.mark.commands
def test_resume_continues_the_metrics(straight_and_resumed):
    whole, halves, *_ = straight_and_resumed
    assert untimed(whole) == untimed(halves)
    assert [row["iteration"] for row in untimed(halves)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.commands
def test_a_signal_saves_and_says_how_to_go_on(straight_and_resumed):
    _, halves, first, _ = straight_and_resumed
    assert first.returncode == 128 + signal.SIGTERM
    assert "python -m navrl.train resume=outputs/combat-ppo/" in first.stdout
    runs = [path for path in (halves / "outputs" / "combat-ppo").iterdir() if path.is_dir()]
    assert len(runs) == 1, "a resumed run goes on in its own folder"
    assert json.loads((runs[0] / "status.json").read_text())["state"] == "finished"


@pytest.mark.commands
def test_a_finished_run_says_so(straight_and_resumed):
    whole, *_ = straight_and_resumed
    again = process(navrl.train.main, "resume=latest", folder=whole)
    assert again.returncode == 2
    assert "the run is complete at 768 frames" in again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.commands
def test_ctrl_c_ends_with_130(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "navrl.train", *TINY, "opponent=straight", "total_frames=100000000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = None
    for _ in range(600):
        metrics = next(tmp_path.glob("outputs/combat-ppo/*/metrics.jsonl"), None)
        if metrics is not None and metrics.stat().st_size > 0:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "To go on:" in out
    run = metrics.parent
    saved = load(find(str(run), tmp_path / "outputs"))
    assert saved["iteration"] == list(read_metrics(metrics))[-1]["iteration"]
    assert json.loads((run / "status.json").read_text())["state"] == "interrupted"


def test_ctrl_c_while_building_leaves_nothing(tmp_path, monkeypatch, capsys):
    def interrupted(start):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(navrl.train, "build_parts", interrupted)
    assert command(navrl.train.main, *TINY) == 130
    assert capsys.readouterr().err == "navrl: nothing was trained, nothing saved\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.commands
def test_multirun_returns_an_objective_per_job(tmp_path):
    done = train(
        *(tmp_path, "-m", *TINY, "seed=1,2", "total_frames=256", "eval_opponents=[]"),
        *("opponent=straight", "env.sim.tick_s=0.25", "profile=true"),
    )
    assert done.stdout.count("profile=true wrote nothing: it needs 3 iterations") == 2
    assert done.stdout.count("against") == 0
    statuses = list(tmp_path.glob("multirun/combat-ppo/*/*/status.json"))
    assert sorted(path.parent.name for path in statuses) == ["0", "1"]
    assert not (tmp_path / "outputs" / "latest").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["agent.num_minibatches=5"], "change agent.num_minibatches", 2),
        (["agent.discount=2"], "agent.discount = 2", 2),
        (["num_envs=0"], "change num_envs", 2),
        (["num_envs=100000000"], "expected a whole number from 1 to 1048576; change num_envs", 2),
        (["scenario=moon"], "Unknown scenario 'moon'; available: box10, ", 2),
        (["restarts=false"], "restarts = False; expected a whole number, 0 or more", 2),
        (["env.team_size=0"], "expected a whole number from 1 to 8; change env.team_size", 2),
        (["opponent=checkpoint", "opponent.checkpoint=x.ckpt"], "change opponent.checkpoint", 2),
        (["device=cuda"], "expected a CUDA build of torch", 2),
        (["resume=nowhere"], "'nowhere'", 2),
        (["env.sim.tick_s=5", "env.sim.decision_s=5"], "env.sim.tick_s", 2),
        (["env.sim.decision_s=1e9"], "expected at most 100, which is 1000 physics steps", 2),
        (["opponent=crank", "opponent.fire_fraction=[1.5,1.0]"], "the lower one first", 2),
        (["hydra.run.dir=/dev/null/run"], "/dev/null", 1),
    ],
)
def test_bad_input_is_one_plain_sentence(tmp_path, monkeypatch, capsys, arguments, sentence, code):
    monkeypatch.chdir(tmp_path)
    found = command(navrl.train.main, *TINY, *arguments)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert found == code, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("navrl: error: ")
    assert sentence in lines[0]
    if code == 2:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "word",
    [
        "console=rich",
        "checkpoint.keep_last=0",
        "logger.mode=here",
        "rollouts.save_every=0",
        "checkpoint.when_full=never",
    ],
)
def test_a_wrong_option_of_what_records_leaves_nothing(tmp_path, monkeypatch, capsys, word):
    monkeypatch.chdir(tmp_path)
    groups = ("rollouts=disk", "checkpoint=async", "logger=wandb", "experiment=debug")
    assert command(navrl.train.main, *groups, word) == 2
    assert f"{word.partition('=')[0]} = " in capsys.readouterr().err
    assert not any(path.is_file() or path.is_symlink() for path in tmp_path.rglob("*"))


def test_help_describes_every_option_that_belongs_to_no_group(capsys):
    assert command(navrl.train.main, "--help") in (0, None)
    shown = {
        line.partition("=")[0].partition(" ")[0] for line in capsys.readouterr().out.splitlines()
    }
    groups = {folder.name for folder in conf_dir().iterdir() if folder.is_dir()}
    plain = {key for key in compose("train") if key not in groups}
    assert plain - {"stop_when"} <= shown
    assert {f"stop_when.{key}" for key in compose("train").stop_when} <= shown
