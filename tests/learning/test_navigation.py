"""PPO learns to fly among obstacles from scratch; run with `make learn`."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.learning


def success(where, checkpoint, *overrides):
    """Wilson's interval of the success in 1,000 held-out episodes."""
    output = f"{checkpoint.replace(':', '_')}.json"
    options = [f"checkpoint={checkpoint}", "num_episodes=1000", f"output={output}", *overrides]
    play = [sys.executable, "-m", "navrl.evaluate", *options]
    subprocess.run(play, cwd=where, check=True, timeout=900)
    return json.loads((where / output).read_text())["metrics"]["success"]


def test_one_and_a_half_million_frames_beat_greedy_in_worlds_never_seen(tmp_path):
    """Without the shield, which alone brings greedy far, and among all obstacles from the start."""
    bare = ("shield=none", "curriculum=none", "total_frames=1_500_000", "logger=none")
    command = [sys.executable, "-m", "navrl.train", "experiment=navigation", *bare]
    subprocess.run([*command, "hydra.run.dir=run"], cwd=tmp_path, check=True, timeout=1800)
    learned = success(tmp_path, "run")
    greedy = success(tmp_path, "scripted:greedy", "env=navigation", "world=pillars")
    assert learned["n"] == greedy["n"] == 1000
    assert learned["low"] > greedy["high"], (learned, greedy)
