"""The commands with agent=hmasd: it trains, goes on at the same bits in any round, and is measured."""

import json

import torch

import navrl.evaluate
import navrl.train
from navrl.checkpoint import load
from tests.commands import command
from tests.test_teams import leaves

RUN = (
    *("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "env.sim.horizon=20"),
    *("num_envs=4", "rollout_steps=30", "agent.k=7", "total_frames=720", "seed=3", "compile=off"),
    *(f"agent.{part}.num_epochs=2" for part in ("coordinator", "actor", "discriminator")),
    *("eval_episodes=4", "logger=none", "console=none", "checkpoint.save_every=3"),
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
