"""The commands with envs for teams: PPO trains in them, goes on at the same bits, and is measured."""

import json

import pytest
import torch

import navrl.evaluate
import navrl.train
from navrl.storage.checkpoint import load
from tests.command_line import command
from tests.envs.test_teams import TINY, leaves

pytestmark = pytest.mark.commands

GRID = ("env=alice_and_bob", "env.sim.size=3", "env.sim.horizon=20")
DRONES = ("env.sim.num_users=10", "env.sim.horizon=20")
SHORT = {
    "alice_and_bob": GRID,
    "coverage": ("env=coverage", *DRONES, "env.reward_split=per_agent"),
    "coverage_relay": ("env=coverage_relay", *DRONES, "observation=relative"),
    "ippo": (*GRID, "agent=ippo", "agent.team.agent_id=true"),
    "mappo": (*GRID, "agent=mappo", "agent.team.share_actor=false"),
    "mappo_own_reward": ("env=coverage", *DRONES, "agent=mappo", "env.reward_split=per_agent"),
}


@pytest.mark.parametrize("case", SHORT)
def test_a_team_trains_and_goes_on_at_the_same_bits(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = (*SHORT[case], "total_frames=512", "checkpoint.save_every=2", "seed=3")
    assert command(navrl.train.main, *TINY, *options, "hydra.run.dir=whole") == 0
    half = "whole/checkpoints/step_000000000256.ckpt"
    assert command(navrl.train.main, f"resume={half}", "hydra.run.dir=branch") == 0
    name = "checkpoints/step_000000000512.ckpt"
    whole, branch = (load(tmp_path / part / name) for part in ("whole", "branch"))
    for part in ("agent", "env", "collector"):
        expected, found = leaves(whole[part]), leaves(branch[part])
        assert expected.keys() == found.keys()
        for path, value in expected.items():
            if torch.is_tensor(value):
                assert torch.equal(value, found[path]), f"{part}{path}"
    measured = ("checkpoint=whole", "num_episodes=8", "output=result.json")
    assert command(navrl.evaluate.main, *measured) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["metrics"]["length"]["mean"] <= 20.0
    assert result["opponent"] is None
