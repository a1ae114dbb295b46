"""PPO learns air combat from scratch; run with `make learn`."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.learning


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_million_frames_beat_the_scripted_pilots(tmp_path, seed):
    budget = ("total_frames=1_000_000", "agent.optimizer.final_learning_rate=5e-5", "logger=none")
    command = [sys.executable, "-m", "navrl.train", "experiment=demo", *budget, f"seed={seed}"]
    subprocess.run([*command, "hydra.run.dir=run"], cwd=tmp_path, check=True, timeout=600)
    for opponent, least in (("pursuit", 0.8), ("crank", 0.6)):
        options = ["checkpoint=run", f"opponent={opponent}", f"output={opponent}.json"]
        play = [sys.executable, "-m", "navrl.evaluate", *options]
        subprocess.run(play, cwd=tmp_path, check=True, timeout=300)
        result = json.loads((tmp_path / f"{opponent}.json").read_text())
        assert result["metrics"]["win"]["n"] == 1000
        assert result["metrics"]["win"]["low"] >= least, (opponent, seed)


def test_without_a_reward_nothing_is_learned(tmp_path):
    command = [sys.executable, "-m", "navrl.train", "experiment=demo", "reward=zero"]
    budget = ["total_frames=300_000", "logger=none", "hydra.run.dir=run", "eval_opponents=[crank]"]
    subprocess.run([*command, *budget], cwd=tmp_path, check=True, timeout=600)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["eval/crank/win"] < 0.6
