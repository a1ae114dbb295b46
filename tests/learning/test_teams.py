"""PPO learns to share out the targets; run with `make learn`."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.learning

# Two against two that fly straight at them, with one missile each: every shot hits, so who shoots at random
# hits one enemy twice in half of the fights, and who wins has learned to leave a mate's target alone.
FIGHT = (
    *("env.team_size=2", "env.sim.ammunition=1", "env.sim.time_limit_s=120"),
    *("scenario.range_m=[10000,20000]", "env.sim.tick_s=0.25"),
)


def win_rate(folder, *arguments):
    """Lower and upper end of the 95 % interval over 500 fights."""
    play = ["-m", "navrl.evaluate", "opponent=pursuit", "num_episodes=500", "output=result.json"]
    subprocess.run([sys.executable, *play, *arguments], cwd=folder, check=True, timeout=200)
    win = json.loads((folder / "result.json").read_text())["metrics"]["win"]
    return win["low"], win["high"]


def test_two_pilots_share_out_two_targets(tmp_path):
    _, at_random = win_rate(tmp_path, "checkpoint=scripted:random", *FIGHT)
    assert at_random < 0.6
    size = ("num_envs=512", "rollout_steps=32", "total_frames=600_000", "compile=off")
    options = ("observation=entities", "opponent=pursuit", "eval_opponents=[]", "logger=none")
    train = [sys.executable, "-m", "navrl.train", *FIGHT, *size, *options, "hydra.run.dir=run"]
    subprocess.run(train, cwd=tmp_path, check=True, timeout=280)
    learned, _ = win_rate(tmp_path, "checkpoint=run")
    assert learned >= 0.9
