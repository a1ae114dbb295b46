"""The commands with agent=hmasd: it trains, goes on at the same bits in any round, and is measured."""

import json
from unittest import mock

import pytest
import torch

import navrl.evaluate
import navrl.train
from navrl.agents.hmasd.agent import HMASD
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from tests.command_line import command

RUN = (
    *("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "env.sim.horizon=20"),
    *("num_envs=4", "rollout_steps=30", "agent.k=7", "total_frames=720", "seed=3", "compile=off"),
    *(f"agent.{part}.num_epochs=2" for part in ("coordinator", "actor", "discriminator")),
    *("eval_episodes=4", "logger=none", "console=lines", "checkpoint.save_every=3"),
)


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
