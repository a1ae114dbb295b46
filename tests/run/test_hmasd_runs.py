"""The commands with agent=hmasd: it trains, goes on at the same bits in any round, and is measured."""

import hashlib
import json
from unittest import mock

import pytest
import torch

import navrl.evaluate
import navrl.train
from navrl.agents.hmasd.agent import HMASD
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from tests.command_line import command, process
from tests.envs.test_teams import leaves

RUN = (
    *("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "env.sim.horizon=20"),
    *("num_envs=4", "rollout_steps=30", "agent.k=7", "total_frames=720", "seed=3", "compile=off"),
    *(f"agent.{part}.num_epochs=2" for part in ("coordinator", "actor", "discriminator")),
    *("eval_episodes=4", "logger=none", "console=lines", "checkpoint.save_every=3"),
)


def test_six_rounds_are_three_and_three_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(navrl.train.main, *RUN, "hydra.run.dir=whole") == 0
    half = "whole/checkpoints/step_000000000360.ckpt"
    assert command(navrl.train.main, f"resume={half}", "hydra.run.dir=branch") == 0
    name = "checkpoints/step_000000000720.ckpt"
    whole, branch = (load(tmp_path / part / name) for part in ("whole", "branch"))
    assert whole["agent"]["policy_version"] == 6
    for part in ("agent", "env", "collector"):
        expected, found = leaves(whole[part]), leaves(branch[part])
        assert expected.keys() == found.keys()
        for path, value in expected.items():
            if torch.is_tensor(value):
                assert torch.equal(value, found[path]), f"{part}{path}"
    results = []
    for _ in range(2):
        measured = ("checkpoint=whole", "num_episodes=8", "output=result.json")
        assert command(navrl.evaluate.main, *measured) == 0
        results.append(json.loads((tmp_path / "result.json").read_text())["metrics"])
    assert results[0] == results[1]
    assert results[0]["length"]["mean"] <= 20.0


def contents(folder):
    """Every file and what is in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.commands
def test_a_fresh_process_measures_the_same_and_touches_nothing(tmp_path):
    options = (*RUN, "total_frames=240", "env.sim.size=3", "hydra.run.dir=run")
    assert process(navrl.train.main, *options, folder=tmp_path).returncode == 0
    before, found = contents(tmp_path), []
    for _ in range(2):
        measured = ("checkpoint=run", "num_episodes=64", "output=../result.json", "seed=5")
        done = process(navrl.evaluate.main, *measured, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        found.append(json.loads((tmp_path.parent / "result.json").read_text()))
    assert found[0] == found[1]
    assert found[0]["frames"] == 240
    assert contents(tmp_path) == before


@pytest.mark.commands
def test_a_run_that_diverged_goes_on_from_the_last_good_iteration(tmp_path, monkeypatch, capsys):
    update, poisoned = HMASD.update, {3, 4, 5}

    def poison(self, rollout):
        if self.policy.version + 1 in poisoned:
            rollout["next", "reward"][0] = torch.nan
        return update(self, rollout)

    monkeypatch.chdir(tmp_path)
    options = (*RUN, "checkpoint.save_every=1", "agent.max_skipped_updates=2")
    with mock.patch.object(HMASD, "update", poison), pytest.warns(match="not finite"):
        assert command(navrl.train.main, *options, "hydra.run.dir=run") == 1
    assert "gradients were not finite in 2 iterations in a row" in capsys.readouterr().err
    status = json.loads((tmp_path / "run/status.json").read_text())
    assert status["reason"].startswith("TrainingDivergedError")
    good = load(find("run", tmp_path))
    assert good["iteration"] == 2, "what is saved while steps are left out may be what broke them"
    assert command(navrl.train.main, "resume=run") == 0
    assert load(find("run", tmp_path))["iteration"] == 6
