"""Files and names for loggers: only what is wanted is made, and what cannot be had costs a sentence."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import navrl.train
from navrl.loggers.wandb import WandbLogger
from navrl.run.attachments import attachments
from navrl.run.records import _name
from navrl.run.stored_files import NO_FILES
from tests.command_line import command
from tests.runs import write_run


def test_nothing_is_made_that_nobody_wants(tmp_path):
    run = write_run(tmp_path / "run")
    before = sorted(run.rglob("*"))
    assert list(attachments(run, frozenset(), NO_FILES, pytest.fail)) == []
    assert list(attachments(run, {"latest", "best"}, NO_FILES, pytest.fail)) == []  # none was saved
    assert sorted(run.rglob("*")) == before


@pytest.mark.commands
def test_a_replay_that_cannot_be_had_is_a_sentence(tmp_path):
    run, notes = write_run(tmp_path / "run"), []
    assert list(attachments(run, {"replay"}, NO_FILES, notes.append)) == []
    (note,) = notes
    assert note.startswith("no replay for the loggers, for navrl replay ended so: ")
    assert "checkpoint" in note


def test_names_tell_runs_apart(tmp_path):
    plan = SimpleNamespace(
        cfg=SimpleNamespace(env=SimpleNamespace(name="combat"), agent=SimpleNamespace(name="ppo"))
    )
    words = ("opponent=crank", "logger.mode=online", "console=lines")
    run = write_run(tmp_path / "20261120-064134-909f", env="combat", seed=3, extra=words)
    assert _name(plan, SimpleNamespace(path=run)) == "combat-ppo seed=3 opponent=crank 909f"


@pytest.mark.commands
def test_a_training_gives_its_replay_and_checkpoints_to_the_logger(tmp_path, monkeypatch):
    attached = []

    def attach(self, kind, path, *, frames):
        attached.append((kind, Path(path).suffix, Path(path).stat().st_size > 0, frames))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(WandbLogger, "attach", attach)
    words = ("experiment=debug", "opponent=crank", "env.sim.time_limit_s=10", "eval_opponents=[]")
    own = ("logger.replay=true", "logger.checkpoints=true", "num_envs=8", "total_frames=128")
    assert command(navrl.train.main, *words, *own, "logger.mode=disabled", "console=none") == 0
    assert attached == [
        ("best", ".ckpt", True, 128),
        ("latest", ".ckpt", True, 128),
        ("replay", ".html", True, 128),
    ]
