"""Two agents learn by skills to open doors for each other; run with `make learn`."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.learning


@pytest.mark.timeout(1200)
def test_alice_and_bob_collect_both_diamonds(tmp_path):
    run = ("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "seed=5", "logger=none")
    train = [sys.executable, "-m", "navrl.train", *run, "compile=off", "hydra.run.dir=run"]
    subprocess.run(train, cwd=tmp_path, check=True, timeout=900)
    play = [sys.executable, "-m", "navrl.evaluate", "checkpoint=run", "num_episodes=200"]
    subprocess.run([*play, "output=result.json"], cwd=tmp_path, check=True, timeout=200)
    success = json.loads((tmp_path / "result.json").read_text())["metrics"]["success"]
    assert success["low"] >= 0.8  # a random policy: one in ten thousand
