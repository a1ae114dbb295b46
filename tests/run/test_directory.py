"""The run directory: described once, never clobbered, never shared, closed with a reason."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from navrl.run import directory
from navrl.run import status as status_file
from navrl.run.directory import RunDirectory
from navrl.run.environment import CORE_PACKAGES, git_state
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.storage.files import to_json

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def open_run(path, **changes):
    options = {
        "config": "seed: 1\n",
        "overrides": ["env=combat", 'name="a: b"'],
        "device": "cpu",
        "latest": None,
        "resumed_from": None,
    }
    with RunLock(path) as lock, RunDirectory(lock, **{**options, **changes}) as run:
        yield run


def written(path):
    return json.loads((path / "status.json").read_text())


def test_a_first_start_is_described_completely(tmp_path):
    with open_run(tmp_path / "run") as run:
        path = run.path
        assert not run.resumed
        assert written(path)["state"] == "running"
        assert written(path)["pid"] == os.getpid()
    assert (path / "config.yaml").read_text() == "seed: 1\n"
    assert yaml.safe_load((path / "overrides.yaml").read_text()) == ["env=combat", 'name="a: b"']
    assert json.loads((path / "summary.json").read_text()) == {}
    assert run.checkpoints == path / "checkpoints"
    assert run.checkpoints.is_dir()
    environment = json.loads((path / "environment.json").read_text())
    assert set(environment["packages"]) == set(CORE_PACKAGES)
    assert environment["packages"]["torch"].startswith("2.")
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert environment["device"] == "cpu"
    assert environment["threads"] >= 1
    assert not list(path.glob(".*.tmp"))


def test_no_environment_variable_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "sesame-4711")
    with open_run(tmp_path / "run") as run:
        pass
    files = [file for file in run.path.rglob("*") if file.is_file()]
    assert len(files) >= 5
    assert not [file for file in files if "sesame-4711" in file.read_text()]


def test_a_resume_keeps_the_first_start_and_says_what_changed(tmp_path):
    with open_run(tmp_path / "run") as run:
        path = run.path
    first = {name: (path / name).read_bytes() for name in ("config.yaml", "overrides.yaml")}
    first["environment.json"] = (path / "environment.json").read_bytes()
    for config in ("seed: 2\n", "seed: 1\n"):
        with open_run(path, config=config, overrides=["x=1"], resumed_from="step_64.ckpt") as run:
            assert run.resumed
    assert first == {name: (path / name).read_bytes() for name in first}
    changed, same = map(json.loads, (path / "resumes.jsonl").read_text().splitlines())
    assert changed["config"] == "seed: 2\n"
    assert same["config"] is None
    assert changed["from"] == "step_64.ckpt"
    assert changed["overrides"] == ["x=1"]
    assert "torch" in changed["environment"]["packages"]


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "interrupted", "Ctrl-C"),
        (SystemExit(143), "interrupted", "exit code 143"),
        (SystemExit(0), "finished", ""),
        (ValueError("nan in loss"), "failed", "ValueError: nan in loss"),
    ],
)
def test_the_way_it_ended_is_recorded(tmp_path, error, state, reason):
    def train():
        with open_run(tmp_path / "run") as run:
            run.frames = 640
            raise error

    with pytest.raises(type(error)):
        train()
    found = written(tmp_path / "run")
    assert (found["state"], found["reason"], found["frames"]) == (state, reason, 640)


def test_leaving_without_a_word_is_finished(tmp_path):
    with open_run(tmp_path / "run") as run:
        pass
    assert written(run.path)["state"] == "finished"


def test_a_full_disk_at_the_end_does_not_hide_the_error(tmp_path, monkeypatch, caplog):
    def full(path, text):
        raise OSError(28, "No space left on device")

    def train():
        with open_run(tmp_path / "run"):
            monkeypatch.setattr(status_file, "write_atomically", full)
            raise ValueError("the real one")

    with pytest.raises(ValueError, match="the real one"):
        train()
    assert "No space left" in caplog.text


def test_latest_is_a_relative_link_that_follows_the_newest_run(tmp_path):
    latest = tmp_path / "outputs" / "latest"
    for name in ("one", "two"):
        with open_run(tmp_path / "outputs" / "combat-ppo" / name, latest=latest):
            assert os.readlink(latest) == f"combat-ppo/{name}"
    assert latest.resolve() == (tmp_path / "outputs" / "combat-ppo" / "two").resolve()
    assert sorted(file.name for file in latest.parent.iterdir()) == ["combat-ppo", "latest"]


def test_where_links_are_impossible_latest_is_a_text_pointer(tmp_path, monkeypatch):
    def refuse(self, target, target_is_directory=False):
        raise OSError("no symlinks here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    latest = tmp_path / "outputs" / "latest"
    with open_run(tmp_path / "outputs" / "combat-ppo" / "one", latest=latest):
        assert latest.read_text() == "combat-ppo/one\n"


def test_a_latest_that_cannot_be_replaced_only_warns(tmp_path, caplog):
    (tmp_path / "latest").mkdir()
    with open_run(tmp_path / "a" / "run", latest=tmp_path / "latest"):
        assert "cannot update" in caplog.text


@pytest.mark.parametrize("name", ["file/run", "nul\0run", "x" * 300])
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, name):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunDirectoryError) as caught, open_run(tmp_path / name):
        pass
    message = str(caught.value)
    assert message.startswith("cannot write the run directory ")
    assert message.endswith("choose a folder you can write to with hydra.run.dir=<folder>")
    assert "\n" not in message
    assert isinstance(caught.value, OSError)


def test_a_failed_start_gives_the_lock_back(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(directory, "describe_environment", lambda device: 1 / 0)
        with pytest.raises(ZeroDivisionError), open_run(tmp_path / "run"):
            pass
    with open_run(tmp_path / "run") as run:
        assert not run.resumed


def test_json_holds_what_json_cannot():
    text = to_json({"a": float("nan"), "b": [float("inf"), (float("-inf"), 1.5)]})
    assert text == '{"a": null, "b": [null, [null, 1.5]]}'


def test_git_state_reads_commit_and_changes(tmp_path):
    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert git_state(tmp_path) is None
    git("init", "--quiet")
    assert git_state(tmp_path) is None  # no commit yet
    (tmp_path / "a.txt").write_text("1")
    git("add", "a.txt")
    git("commit", "--quiet", "--no-verify", "--message", "first")
    assert git_state(tmp_path) == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a.txt").write_text("2")
    assert git_state(tmp_path)["dirty"] is True
