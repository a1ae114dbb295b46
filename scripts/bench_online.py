"""Let a policy go on learning in a wind that turns, beside the same policy that stays as it is.

    .venv/bin/python scripts/bench_online.py build/online 1 2 3 4 5

Each seed trains a policy in a wind along x. Then the wind turns by half a circle while one process plays
(`navrl collect`) and another learns (`collector=folder`); the frozen policy meets the same wind and episodes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from navrl.loggers.jsonl import read_iterations
from navrl.run.intervals import mean_interval
from navrl.storage.info import checkpoint_files
from navrl.storage.rollouts import load_rollout, rollout_files

ROOT = Path(__file__).resolve().parents[1]
NUM_ENVS = STEPS = 64
BEFORE, ROLLOUTS = 80, 72  # iterations in the steady wind, rollouts in the turning one
TURN = f"env.sim.turn_deg={180.0 / (ROLLOUTS * STEPS):g}"
WORLD = ("plugins=[windy]", "env=windy", "compile=off")
TRAINING = (
    *("experiment=classic", f"num_envs={NUM_ENVS}", f"rollout_steps={STEPS}"),
    *("agent.num_epochs=4", "agent.num_minibatches=8", "agent.optimizer.final_learning_rate=5e-4"),
    *("logger=none", "console=none"),
)
NEAR = 2  # the column of the statistic: return, length, near


def started(*words: str) -> subprocess.Popen[str]:
    """Start a navrl command that finds the package windy."""
    paths = [str(ROOT / "docs" / "examples"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "navrl.cli", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def done(process: subprocess.Popen[str]) -> str:
    """Wait for a command, and return what it has printed."""
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} ended with {process.returncode}: {printed}")
    return printed


def near_by_rollout(folder: Path) -> list[float]:
    """Return the mean share of an episode near the pad, of the episodes that ended in each rollout."""
    found = []
    for path in rollout_files(folder)[:ROLLOUTS]:
        ahead = load_rollout(path, ["next/done", "next/episode"])["next"]
        ended = ahead["episode"][ahead["done"].squeeze(-1)]
        if len(ended):
            found.append(float(ended[:, NEAR].mean()))
    return found


def evaluated(policy: Path, degrees: float, folder: Path) -> float:
    """Return the share near the pad over 500 other episodes in a wind that stays."""
    output = folder / "evaluation.json"
    words = (f"checkpoint={policy}", f"env.sim.blows_to_deg={degrees}", f"output={output}")
    done(started("evaluate", "plugins=[windy]", *words, "num_episodes=500", "compile=off"))
    return float(json.loads(output.read_text())["metrics"]["near"]["mean"])


def of_seed(folder: Path, seed: int) -> dict[str, float]:
    """Train, freeze a copy, let both meet the turning wind, and measure."""
    run, frozen, frames = folder / "run", folder / "frozen.ckpt", NUM_ENVS * STEPS
    words = (f"seed={seed}", f"total_frames={BEFORE * frames}", f"hydra.run.dir={run}")
    done(started("train", *WORLD, *TRAINING, *words))
    shutil.copy(checkpoint_files(run / "checkpoints")[0], frozen)
    again = ("plugins=[windy]", TURN, f"seed={1000 + seed}", "keep_last=1000")
    done(
        started("collect", str(frozen), *again, f"rollouts={ROLLOUTS}", "--into", f"{folder}/stays")
    )
    total = f"total_frames={(BEFORE + ROLLOUTS) * frames}"
    follow = ("collector=folder", "checkpoint.save_every=1", total, "collector.wait_s=120")
    began = time.monotonic()
    learner = started("train", f"resume={run}", "plugins=[windy]", "console=none", *follow)
    actor = started("collect", str(run), *again, "per_policy=1")
    done(learner)
    seconds = time.monotonic() - began
    done(actor)
    stays, learns = (
        near_by_rollout(folder / "stays/actor-1"),
        near_by_rollout(run / "inbox/actor-1"),
    )
    rows = read_iterations(run / "metrics.jsonl")[BEFORE:]
    last = len(stays) // 4
    mean = lambda numbers: sum(numbers) / len(numbers)  # noqa: E731
    return {
        "frozen": mean(stays),
        "continued": mean(learns),
        "frozen, last quarter": mean(stays[-last:]),
        "continued, last quarter": mean(learns[-last:]),
        "frozen at 0 deg": evaluated(frozen, 0, folder),
        "continued at 0 deg": evaluated(run, 0, folder),
        "frozen at 180 deg": evaluated(frozen, 180, folder),
        "continued at 180 deg": evaluated(run, 180, folder),
        "mean lag": mean([row["sync/lag"] for row in rows]),
        "largest lag": max(row["sync/lag"] for row in rows),
        "mean weight": mean([row["sync/mean_weight"] for row in rows]),
        "refused": rows[-1]["sync/refused_rollouts"],
        "learner cpu s": sum(row["time/cpu"] for row in rows),
        "seconds": seconds,
    }


def main(folder: Path, seeds: list[int]) -> None:
    """Measure every seed that has no result yet, and print the table."""
    found = {}
    for seed in seeds:
        place = folder / f"seed-{seed}"
        result = place / "result.json"
        if not result.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            result.write_text(json.dumps(of_seed(place, seed), indent=2))
        found[seed] = json.loads(result.read_text())
    names = list(found[seeds[0]])
    for name in names:
        values = [each[name] for each in found.values()]
        interval = mean_interval(values)
        cells = " ".join(f"{value:8.3f}" for value in values)
        print(
            f"{name:24} {cells}   {interval.mean:.3f} ({interval.low:.3f} .. {interval.high:.3f})"
        )
    for part in ("", ", last quarter", " at 180 deg", " at 0 deg"):
        gains = [each[f"continued{part}"] - each[f"frozen{part}"] for each in found.values()]
        gain = mean_interval(gains)
        print(f"continued - frozen{part}: {gain.mean:+.3f} ({gain.low:+.3f} .. {gain.high:+.3f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]] or [1, 2, 3, 4, 5])
