"""Race PPO on 64 CartPoles against Stable-Baselines3's: frames per CPU second, and the curves.

    .venv/bin/python scripts/bench_gym.py [--frames 100000] [--turns 3]

Both make the same gradient steps on as many frames: 64 x 32 frames, 10 passes over 16 minibatches, two layers
of 64. Turns alternate after one that is not counted, in which navrl compiles; one thread; seconds of the CPU.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import navrl
from timing import parser

ENVS, STEPS = 64, 32
Curve = list[tuple[int, float]]  # frames, mean return of training episodes


def ours(frames: int, seed: int, folder: Path) -> tuple[float, Curve]:
    """Return CPU seconds of a training, and its curve."""
    options = {"experiment": "classic", "env": "gym", "env.id": "CartPole-v1", "logger": "none"}
    quiet = {"console": "none", "checkpoint": "none", "eval_episodes": 1, "hydra.run.dir": folder}
    sizes = {"num_envs": ENVS, "rollout_steps": STEPS, "total_frames": frames, "seed": seed}
    began = time.process_time()
    columns = navrl.train(options, quiet, sizes).run.metrics
    seconds = time.process_time() - began
    return seconds, list(zip(columns["frames"].astype(int), columns["episode/return"], strict=True))


class _Returns(BaseCallback):
    """Keeps the mean return of the last hundred episodes after every rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        ended = [episode["r"] for episode in self.model.ep_info_buffer]
        self.curve.append((self.num_timesteps, sum(ended) / max(len(ended), 1)))


def theirs(frames: int, seed: int, _: Path) -> tuple[float, Curve]:
    """Return the same of Stable-Baselines3."""
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", ENVS, seed=seed),
        n_steps=STEPS,
        batch_size=ENVS * STEPS // 16,
        n_epochs=10,
        gamma=0.98,
        learning_rate=lambda left: 1e-4 + 9e-4 * left,
        ent_coef=0.0,
        seed=seed,
        device="cpu",
    )
    returns, began = _Returns(), time.process_time()
    model.learn(frames, callback=returns)
    return time.process_time() - began, returns.curve


RACERS: dict[str, Callable[[int, int, Path], tuple[float, Curve]]] = {
    "navrl": ours,
    "Stable-Baselines3": theirs,
}


def main() -> None:
    """Print frames per CPU second of both, and their curves."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--frames", type=int, default=100_000)
    options_parser.add_argument("--turns", type=int, default=3)
    options = options_parser.parse_args()
    torch.set_num_threads(1)
    speeds: dict[str, list[float]] = {name: [] for name in RACERS}
    curves: dict[str, list[Curve]] = {name: [] for name in RACERS}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(options.turns + 1):
            for name, race in RACERS.items():
                seconds, curve = race(options.frames, turn, Path(scratch, str(turn)))
                if turn == 0:
                    continue
                speeds[name].append(options.frames / seconds)
                curves[name].append(curve)
    for name in RACERS:
        print(f"{name:<18} {median(speeds[name]):8,.0f} frames per CPU second")
    ours_, theirs_ = (median(speeds[name]) for name in RACERS)
    print(
        f"ratio {ours_ / theirs_:.2f}\n\nmean return of training episodes, by frames; median of turns"
    )
    for share in (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0):
        frames = int(share * options.frames)
        row = [median(_at(curve, frames) for curve in curves[name]) for name in RACERS]
        print(f"{frames:>9,}  " + "  ".join(f"{value:7.1f}" for value in row))


def _at(curve: Curve, frames: int) -> float:
    """Return the last number of a curve that was known at these frames."""
    known = [value for place, value in curve if place <= frames and value == value]
    return known[-1] if known else 0.0


if __name__ == "__main__":
    main()
