"""The commands: one sentence and an exit code for every mistake, a directory for every job."""

import argparse
import logging
import sys

import pytest

from navrl.config.checks import ConfigError
from navrl.config.command import run_main, run_plain
from navrl.config.compose import build


def command(monkeypatch, capsys, *arguments, function=lambda config: 0.0, name="train"):
    """The exit code and stderr of the command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    # A sweep that another test ran in this process has left a handler for the output of that test.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    try:
        run_main(function, name)
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["agnt=ppo"], "Unknown option 'agnt'; did you mean 'agent'? (see: "),
        (["agent=pppo"], "Unknown agent 'pppo'; available: ppo; did you mean 'ppo'?"),
        (
            ["agent.learning_rat=1"],
            "Unknown key 'agent.learning_rat'; did you mean 'agent.learning_rate'?",
        ),
        (
            ["learning_rate=1"],
            "Unknown option 'learning_rate'; did you mean 'agent.learning_rate'?",
        ),
        (["zzz=1"], "Unknown option 'zzz'; known: agent, env, experiment, num_envs, reward, seed"),
        (["env={"], "Cannot read 'env={'"),
        (["seed"], "Cannot read 'seed': write key=value"),
        (["+experiment=demo"], "'experiment' is chosen twice"),
        (["seed=1,2"], "'seed=1,2' lists several values: add -m"),
        (
            ["-m", "env=duel,rase"],
            "Unknown env 'rase'; available: duel, race; did you mean 'race'?",
        ),
        (["seed=1", "-m", "env=duel"], "write flags such as -m before"),
        (["--experiment", "demo"], "write experiment=... without dashes"),
        (["--set", "seed=1"], "write key=value without --set"),
        (["--experimental-rerun", "x.pickle"], "--experimental-rerun is refused"),
        (["--config-dir", "/x"], "--config-dir '/x' is not a directory"),
        (["env.name=${nothing}"], "Interpolation key 'nothing' not found"),
        (["hydra/launcher=none"], "Unknown hydra/launcher 'none'; available: basic, joblib"),
    ],
)
def test_wrong_command_lines_get_one_sentence_and_create_nothing(
    arguments, sentence, monkeypatch, capsys, tmp_path
):
    code, error = command(monkeypatch, capsys, *arguments)
    assert code == 2
    assert error.startswith("navrl: error: ")
    assert sentence in error
    assert error.count("\n") == 1
    assert [item.name for item in tmp_path.iterdir()] == ["conf"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["engine=steam"],
            "'engine' is an option of env=race; choose another env, or leave engine= out",
        ),
        (
            ["env=duel", "experiment=long", "seed=1"],
            "experiment=long changes 'engine', which is an option of env=race; choose another env, or "
            "leave experiment=long out",
        ),
    ],
)
def test_an_option_of_other_envs_names_them(monkeypatch, capsys, tmp_path, words, sentence):
    race = "defaults:\n  - /engine@_global_.engine: steam\n  - _self_\nname: race\n"
    long = "# @package _global_\ndefaults:\n  - override /engine@engine: diesel\n"
    files = {"engine/steam": "power: 1\n", "engine/diesel": "power: 2\n", "env/race": race}
    for name, text in (files | {"experiment/long": long}).items():
        file = tmp_path / "conf" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert command(monkeypatch, capsys, *words) == (2, f"navrl: error: {sentence}\n")


def test_a_missing_mandatory_value_is_named(monkeypatch, capsys):
    code, error = command(monkeypatch, capsys, name="evaluate")
    assert (code, error) == (2, "navrl: error: 'checkpoint' needs a value: add checkpoint=...\n")


def test_a_broken_yaml_file_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "conf/env/broken.yaml").write_text("a: [1")
    code, error = command(monkeypatch, capsys, "env=broken", "reward=duel")
    assert code == 2
    assert "broken.yaml" in error
    assert error.count("\n") == 1


def test_a_run_gets_its_own_directory(monkeypatch, capsys, tmp_path):
    seeds = []
    assert command(monkeypatch, capsys, "seed=5", function=lambda c: seeds.append(c.seed))[0] == 0
    assert seeds == [5]
    (directory,) = (tmp_path / "outputs" / "duel-ppo").iterdir()
    assert list(directory.iterdir()) == []  # no .hydra, no log file


def test_a_sweep_runs_every_job_in_a_directory_of_its_own(monkeypatch, capsys, tmp_path):
    jobs = []
    code, _ = command(
        monkeypatch,
        capsys,
        "-m",
        "seed=1,2",
        "env=duel,race",
        function=lambda c: jobs.append(c.seed),
    )
    assert code == 0
    assert sorted(jobs) == [1, 1, 2, 2]
    (sweep,) = (tmp_path / "multirun").iterdir()
    assert {item.name for item in sweep.iterdir()} == {"0", "1", "2", "3", "multirun.yaml"}


def test_user_errors_in_a_run_are_one_sentence(monkeypatch, capsys):
    def main(config):
        build(config.env)(device="cpu")

    code, error = command(monkeypatch, capsys, "num_envs=abc", function=main)
    assert (code, error) == (2, "navrl: error: 'env.num_envs' must be int, but got 'abc'\n")

    def missing_file(config):
        open("nothing.ckpt")  # noqa: SIM115

    code, error = command(monkeypatch, capsys, function=missing_file)
    assert (code, error) == (2, "navrl: error: No such file or directory: 'nothing.ckpt'\n")


def test_one_failing_job_fails_the_sweep_and_the_others_run(monkeypatch, capsys):
    jobs = []

    def main(config):
        if config.seed == 2:
            raise ConfigError("two is wrong")
        jobs.append(config.seed)

    code, error = command(monkeypatch, capsys, "-m", "seed=1,2,3", function=main)
    assert code == 1
    assert jobs == [1, 3]
    assert "navrl: error: two is wrong\n" in error
    assert "Traceback" not in error


def test_bugs_keep_their_traceback(monkeypatch, capsys):
    code, error = command(monkeypatch, capsys, function=lambda config: 1 / 0)
    assert code == 1
    assert "ZeroDivisionError" in error
    assert "Traceback" in error


def test_debugging_shows_the_traceback_of_user_errors(monkeypatch, capsys):
    monkeypatch.setenv("NAVRL_DEBUG", "1")
    with pytest.raises(ConfigError):
        command(monkeypatch, capsys, "agnt=ppo")


def test_exit_codes_of_the_program_itself_pass_through(monkeypatch, capsys):
    def interrupted(config):
        raise SystemExit(130)

    assert command(monkeypatch, capsys, function=interrupted)[0] == 130


def test_an_output_folder_that_cannot_be_made_is_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "outputs").write_text("a file where a folder should be")
    for arguments in ([], ["-m", "seed=1,2", "hydra.sweep.dir=outputs/x"]):
        code, error = command(monkeypatch, capsys, *arguments)
        assert code == 1
        assert "cannot create the output folder" in error
        assert error.count("\n") == 1


def test_ctrl_c_is_answered_in_one_line(capsys):
    def stopped(options):
        raise KeyboardInterrupt

    assert run_plain(argparse.ArgumentParser(prog="navrl it"), stopped, []) == 130
    assert capsys.readouterr().err == "navrl: stopped by Ctrl-C before it was done\n"
