"""Matrix products in bf16 learn what those in float32 learn; run with `make learn`."""

import subprocess
import sys

import pytest

from navrl.run.intervals import mean_interval
from summarise_runs import finals, quarters

pytestmark = pytest.mark.learning
SEEDS = range(5)


def curves(folder, precision):
    """For every seed the mean win rates in quarters of training, and those of the final evaluation."""
    rows = []
    for seed in SEEDS:
        run = folder / f"{precision}-{seed}"
        options = [f"agent.network.precision={precision}", f"seed={seed}", f"hydra.run.dir={run}"]
        budget = ["total_frames=1_000_000", "logger=none", "eval_opponents=[pursuit,crank]"]
        command = [sys.executable, "-m", "navrl.train", "experiment=demo", *budget, *options]
        subprocess.run(command, cwd=folder, check=True, timeout=600)
        rows.append(quarters(run, "episode/win") | finals(run))
    return rows


@pytest.mark.timeout(3000)
def test_curves_of_bf16_are_within_the_spread_of_those_of_fp32(tmp_path):
    fp32, bf16 = (curves(tmp_path, precision) for precision in ("fp32", "bf16"))
    assert len(fp32[0]) == 6  # four quarters and two opponents
    for name in fp32[0]:
        differences = [ours[name] - theirs[name] for ours, theirs in zip(bf16, fp32, strict=True)]
        spread = mean_interval(differences, confidence=0.99)  # of six, so that chance fails in few
        assert spread.low <= 0.0 <= spread.high, (name, differences)
        if "quarter" in name:  # of which each is a mean over hundreds of fights a seed
            assert abs(spread.mean) < 0.05, (name, differences)
    # And both have learned, or equal curves would say nothing.
    for runs in (fp32, bf16):
        assert all(run["eval/pursuit/win"] > 0.8 for run in runs)
