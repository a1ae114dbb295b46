"""Let a policy go on learning in a wind that turns, beside the same policy that stays as it is.

    .venv/bin/python scripts/bench_online.py build/online 1 2 3 4 5
    .venv/bin/python scripts/bench_online.py build/online 1 2 3 4 5 --lag 4 15   # with V-trace and without

Each seed trains a policy in a wind along x. Then the wind turns by half a circle while one process plays
(`navrl collect`) and another learns (`collector=folder`); the frozen policy meets the same wind and episodes.
With --lag the learner saves so rarely that rollouts are by 0 up to so many updates too old, and learns from
them by V-trace and in two ways without it. What a folder has already is not measured again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tensordict import TensorDictBase

from navrl import cli
from navrl.agents.ppo.lag import VTrace
from navrl.loggers.jsonl import read_iterations
from navrl.run.intervals import mean_interval
from navrl.storage.files import read_json
from navrl.storage.info import checkpoint_files
from navrl.storage.rollouts import load_rollout, rollout_files
from timing import parser

ROOT = Path(__file__).resolve().parents[1]
NUM_ENVS = STEPS = 64
BEFORE, ROLLOUTS = 80, 72  # iterations in the steady wind, rollouts in the turning one
FRAMES = NUM_ENVS * STEPS  # of a rollout
TURN = f"env.sim.turn_deg={180.0 / (ROLLOUTS * STEPS):g}"
WORLD = ("plugins=[windy]", "env=windy", "compile=off")
TRAINING = (
    *("experiment=classic", f"num_envs={NUM_ENVS}", f"rollout_steps={STEPS}"),
    *("agent.num_epochs=4", "agent.num_minibatches=8", "agent.optimizer.final_learning_rate=5e-4"),
    *("logger=none", "console=none"),
)
NEAR = 2  # the column of the statistic: return, length, near
VTRACE, STORED, NONE = "V-trace", "GAE, ratios to the actor", "GAE, as its own"
Figures = dict[str, float]


class Way(NamedTuple):
    """How old the rollouts are that a policy learns from, and what corrects for it."""

    lag: int  # updates by which the newest rollout of a policy is too old; the first one by 0
    correction: str = VTRACE

    @property
    def name(self) -> str:
        """Return what its files are called."""
        kind = {VTRACE: "vtrace", STORED: "stored", NONE: "none"}[self.correction]
        return f"lag-{self.lag}-{kind}"


def started(*words: str, code: str = "") -> subprocess.Popen[str]:
    """Start a navrl command, or this code with its words, that finds the package windy."""
    paths = [str(ROOT / name) for name in ("docs/examples", "scripts", ".")]
    paths += [os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, *(["-c", code] if code else ["-m", "navrl.cli"]), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def done(process: subprocess.Popen[str]) -> str:
    """Wait for a command, and return what it has printed."""
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} ended with {process.returncode}: {printed}")
    return printed


def kept(path: Path, measure: Callable[[], Figures]) -> Figures:
    """Return the figures in a file, after measuring them if it is not there."""
    if not path.exists():
        figures = measure()
        path.write_text(json.dumps(figures, indent=2))
    found: Figures = read_json(path)
    return found


def near_by_quarter(folder: Path) -> Figures:
    """Return the mean share of an episode near the pad, over the turn and its quarters.

    Each rollout counts alike, by the episodes that ended in it.
    """
    found = []
    for path in rollout_files(folder)[:ROLLOUTS]:
        ahead = load_rollout(path, ["next/done", "next/episode"])["next"]
        ended = ahead["episode"][ahead["done"].squeeze(-1)]
        found.append(float(ended[:, NEAR].mean()) if len(ended) else None)
    size = ROLLOUTS // 4
    parts = {f"quarter {n + 1}": found[n * size : (n + 1) * size] for n in range(4)}
    parts = {"whole turn": found, **parts}
    return {name: fmean(each for each in part if each is not None) for name, part in parts.items()}


def evaluated(policy: Path, folder: Path) -> Figures:
    """Return the share near the pad over 500 other episodes, in the winds of the begin and the end."""
    found = {}
    for degrees in (0, 180):
        output = folder / "evaluation.json"
        words = (f"checkpoint={policy}", f"env.sim.blows_to_deg={degrees}", f"output={output}")
        done(started("evaluate", "plugins=[windy]", *words, "num_episodes=500", "compile=off"))
        found[f"at {degrees} deg"] = float(read_json(output)["metrics"]["near"]["mean"])
    return found


def played(seed: int) -> tuple[str, ...]:
    """Return the words of an actor in the turning wind: the same episodes for the same seed."""
    return ("plugins=[windy]", TURN, f"seed={1000 + seed}", "keep_last=1000")


def frozen(folder: Path, seed: int) -> Figures:
    """Train in the steady wind, and let a copy of the policy meet the turning one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run, copy = folder / "run", folder / "frozen.ckpt"
    words = (f"seed={seed}", f"total_frames={BEFORE * FRAMES}", f"hydra.run.dir={run}")
    done(started("train", *WORLD, *TRAINING, *words))
    shutil.copy(checkpoint_files(run / "checkpoints")[0], copy)
    inbox = folder / "frozen"
    done(started("collect", str(copy), *played(seed), f"rollouts={ROLLOUTS}", "--into", str(inbox)))
    return {**near_by_quarter(inbox / "actor-1"), **evaluated(copy, folder)}


def continued(folder: Path, seed: int, way: Way) -> Figures:
    """Let a copy of the run go on learning while its policies play, each so often as `way` says."""
    run = folder / way.name
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(folder / "run", run)
    total = f"total_frames={(BEFORE + ROLLOUTS) * FRAMES}"
    rare = (f"checkpoint.save_every={1 + way.lag}", f"collector.max_lag={max(way.lag, 4)}")
    words = (f"resume={run}", "plugins=[windy]", "console=none", "collector=folder", total, *rare)
    began = time.monotonic()
    if way.correction == VTRACE:
        learner = started("train", *words, "collector.wait_s=120")
    else:
        code = f"import bench_online; bench_online.learn_without_vtrace({way.correction!r})"
        learner = started(*words, "collector.wait_s=120", code=code)
    actor = started("collect", str(run), *played(seed), f"per_policy={1 + way.lag}")
    try:
        done(learner)
    except BaseException:
        actor.terminate()  # it would wait for the next policy
        raise
    seconds = time.monotonic() - began
    done(actor)
    rows = read_iterations(run / "metrics.jsonl")[BEFORE:]
    return {
        **near_by_quarter(run / "inbox" / "actor-1"),
        **evaluated(run, folder),
        "mean lag": fmean(row["sync/lag"] for row in rows),
        "largest lag": max(row["sync/lag"] for row in rows),
        "mean weight": fmean(row["sync/mean_weight"] for row in rows),
        "refused": rows[-1]["sync/refused_rollouts"],
        "learner's CPU s": sum(row["time/cpu"] for row in rows),
        "seconds": seconds,
    }


def learn_without_vtrace(correction: str) -> None:
    """Run `navrl train` with advantages by GAE; the metrics of V-trace stay."""
    with_vtrace = VTrace.with_advantages

    def by_gae(self: VTrace, frames: TensorDictBase, gae: Any, log_probs: Any) -> TensorDictBase:
        # V-trace replaces the log-probs of the policy that collected.
        with_vtrace(self, frames if correction == NONE else frames.copy(), gae, log_probs)
        found: TensorDictBase = gae(frames)
        return found

    VTrace.with_advantages = by_gae  # type: ignore[method-assign]
    sys.exit(cli.main(["train", *sys.argv[1:]]))


def shown(name: str, values: Sequence[float], sign: str = "") -> str:
    """Return a row: a name, the figures of the seeds, and their mean with its interval."""
    mean, low, high, _ = mean_interval(values)
    cells = " ".join(f"{value:{sign}8.3f}" for value in values)
    return f"{name:24} {cells}   {mean:{sign}.3f} ({low:{sign}.3f} .. {high:{sign}.3f})"


def main() -> None:
    """Measure every seed and every way that has no figures yet, and print them."""
    options_parser = parser(__doc__)
    options_parser.add_argument("folder", type=Path)
    options_parser.add_argument("seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    options_parser.add_argument("--lag", type=int, nargs="*", default=[], metavar="UPDATES")
    options = options_parser.parse_args()
    ways = [Way(0), *(Way(lag, how) for lag in options.lag for how in (VTRACE, STORED, NONE))]
    found: dict[str, list[Figures]] = {name: [] for name in ("frozen", *(way.name for way in ways))}
    for seed in options.seeds:
        place = options.folder.absolute() / f"seed-{seed}"
        found["frozen"].append(kept(place / "frozen.json", partial(frozen, place, seed)))
        for way in ways:
            measure = partial(continued, place, seed, way)
            found[way.name].append(kept(place / f"{way.name}.json", measure))
    for name, figures in found.items():
        print(f"\n{name}")
        for key in figures[0]:
            print(shown(key, [each[key] for each in figures]))
    pairs = [("frozen", Way(0))]
    pairs += [(Way(way.lag).name, way) for way in ways if way.correction != VTRACE]
    for name, way in pairs:
        print(f"\n{way.name} - {name}")
        for key in found["frozen"][0]:
            both = zip(found[way.name], found[name], strict=True)
            print(shown(key, [one[key] - other[key] for one, other in both], "+"))


if __name__ == "__main__":
    main()
