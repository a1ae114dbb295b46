"""Feed the loaders states that no run has saved, in files whose checksums are right.

    .venv/bin/python scripts/fuzz_state.py [--inputs 200000] [--processes 1] [--seed 0]

Every input is one to three changes of a real checkpoint, league, configuration, rollout or metrics.jsonl. It
must be accepted or refused in a sentence, as the commands would print it, within a second and with little
memory. One in twenty goes through a file, and one in fifty of those that are accepted trains an iteration.
The exit code is 1 if an input did anything else; `--seed S --inputs 1` repeats it.
"""

import contextlib
import copy
import functools
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import hydra
import torch
from omegaconf import open_dict

from fuzz_container import limit_memory, peak_bytes
from navrl.commands import checkpoint as checkpoint_command
from navrl.commands import report, rollouts
from navrl.config.command import _sentence
from navrl.config.compose import build, compose_all, from_json, to_json
from navrl.config.resumed import resumed
from navrl.loggers.jsonl import JsonlLogger, read_metrics
from navrl.run.build import Parts, build_parts, load_agent, load_episodes, load_policy
from navrl.run.evaluation import evaluation_config
from navrl.run.plan import Plan, _iterations, check_run_state
from navrl.run.random_state import rng_state, set_rng_state
from navrl.selfplay.league_table import league_of, league_record, league_table
from navrl.storage import container
from navrl.storage.checkpoint import check_policy_state, load, write_state
from navrl.storage.compare import differing
from navrl.storage.rollouts import RolloutStorage, load_rollout
from navrl.storage.tree import flatten
from state_changes import changed
from timing import parser

SMALL = (
    *("num_envs=2", "rollout_steps=4", "total_frames=64", "compile=off", "threads=1", "device=cpu"),
    *("logger=none", "console=none", "eval_opponents=[]"),
)
NARROW = ("agent.network.hidden_sizes=[4]", "agent.num_minibatches=2")
FIGHT = ("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", *NARROW)
GRID = ("env=alice_and_bob", "env.sim.size=3", "env.sim.horizon=20")
STAGES = ("sparse", "standing", *(f"moving{count}" for count in (60, 80, 100, 120)))
RUNS = {
    "league": (
        *FIGHT,
        "curriculum=league",
        "curriculum.self_play.snapshot_every=8",
        "collector=pipelined",
    ),
    "memory": (*FIGHT, "agent.network.rnn=gru", "agent.network.chunk_length=2"),
    "navigation": (
        *("env=navigation", "curriculum=crowds", "world.count=2", "world.routes_per_world=2"),
        *("world.map.count=4", "env.sim.moving.count=8", "env.sim.time_limit_s=2", *NARROW),
        *(f"curriculum.stages.{stage}.static=4" for stage in STAGES),
        *(f"curriculum.stages.{stage}.moving=4" for stage in STAGES),
        *("world.difficulty.static=4", "world.difficulty.moving=4"),
    ),
    "team": ("env=coverage", "agent=mappo", "env.sim.num_users=4", "env.sim.horizon=9", *NARROW),
    "skills": (*GRID, "agent=hmasd"),
}
SHARES = {"league": 20, "memory": 20, "navigation": 8, "team": 20, "skills": 12}
MAX_SECONDS = 1.0  # of the processor
FILE_EVERY, TRAIN_EVERY, BUILD_EVERY = 20, 50, 20


class Refused(Exception):  # noqa: N818 (it says what it is)
    """The outcome of a command that printed a sentence, or of a tree that no file can hold."""


class Target(NamedTuple):
    """A tree to change, and its loader."""

    name: str
    tree: Any
    load: Callable[[Any, random.Random], None]
    share: int  # of all inputs, relative to the others


def remember_compositions() -> None:
    """Compose every configuration once: Hydra needs 0.2 s for each."""
    compose_anew, known = hydra.compose, {}

    def remembered(*arguments: Any, **options: Any) -> Any:
        key = str((arguments, options))
        if key not in known:
            known[key] = compose_anew(*arguments, **options)
        return copy.deepcopy(known[key])

    hydra.compose = remembered


def main() -> int:
    """Print the figures; return 1 if an input was neither accepted nor refused as it should."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--inputs", type=int, default=200_000)
    options_parser.add_argument("--seed", type=int, default=0)
    options_parser.add_argument("--processes", type=int, default=1)
    options = options_parser.parse_args()
    share = -(-options.inputs // options.processes)
    starts = [options.seed + share * number for number in range(options.processes)]
    if options.processes == 1:
        parts = [fuzz_share(options.seed, share)]
    else:
        with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
            parts = list(pool.map(fuzz_share, starts, [share] * options.processes))
    found = functools.reduce(Found.joined, parts)
    print(f"{share * options.processes:,} inputs in {found.minutes:.1f} minutes of one core\n")
    print(found.table())
    print("\n".join(found.failures) or "no other errors")
    return bool(found.failures)


def fuzz_share(seed: int, inputs: int) -> "Found":
    """Train small runs in a folder in memory, and change their states."""
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder, contextlib.chdir(folder):
        return fuzz(targets(Path(folder)), seed, inputs)


class Found:
    """Outcomes by target, times, memory and failures."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.slowest: dict[str, float] = {}
        self.failures: list[str] = []
        self.growth = 0
        self.minutes = 0.0  # of the processor, with the training

    def joined(self, other: "Found") -> "Found":
        """Add the figures of another process."""
        self.outcomes += other.outcomes
        for name, seconds in other.slowest.items():
            self.slowest[name] = max(seconds, self.slowest.get(name, 0.0))
        self.failures += other.failures
        self.growth = max(self.growth, other.growth)
        self.minutes += other.minutes
        return self

    def table(self) -> str:
        """Return a row for each target, in Markdown."""
        head = ("inputs of", "inputs", "refused", "accepted", "other errors", "slowest")
        rows = [head, ("---",) * len(head)]
        for name in self.slowest:
            counts = [self.outcomes[name, kind] for kind in ("refused", "accepted", "failed")]
            numbers = [f"{number:,}" for number in (sum(counts), *counts)]
            rows.append((name, *numbers, f"{1e3 * self.slowest[name]:.0f} ms"))
        lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{lines}\n\npeak memory: {self.growth / 1e6:.0f} MB above the start"


def fuzz(chosen: list[Target], seed: int, inputs: int) -> Found:
    """Change and load; count what came of it."""
    found = Found()
    shares = [target.share for target in chosen]
    for target in chosen:
        target.load(target.tree, random.Random(0))  # imports everything that is imported late
    before = limit_memory()
    for number in range(seed, seed + inputs):
        dice = random.Random(number)
        (target,) = dice.choices(chosen, shares)
        tree = changed(target.tree, dice)
        began = time.process_time()
        try:
            with _quiet():
                target.load(tree, dice)
            outcome = "accepted"
        except (Exception, SystemExit) as error:  # noqa: BLE001 (any error but ours is a failure)
            outcome = "refused"
            if not isinstance(error, Refused) and _sentence(error) is None:
                outcome = "failed"
                text = f"{type(error).__name__}: {error!s:.160}"
                found.failures.append(f"seed {number} ({target.name}): {text}")
        seconds = time.process_time() - began
        if seconds > MAX_SECONDS:
            found.failures.append(f"seed {number} ({target.name}): took {seconds:.1f} s")
        found.outcomes[target.name, outcome] += 1
        found.slowest[target.name] = max(seconds, found.slowest.get(target.name, 0.0))
    found.growth, found.minutes = peak_bytes() - before, time.process_time() / 60
    return found


def targets(folder: Path) -> list[Target]:
    """Train small runs, and return everything of them that commands read."""
    torch.set_num_threads(1)
    remember_compositions()
    with _quiet():
        runs = {name: Run(name, options, folder) for name, options in RUNS.items()}
    league = runs["league"]
    checkpoints = [
        Target(f"checkpoint: {name}", run.state, run.load, SHARES[name])
        for name, run in runs.items()
    ]
    return [
        *checkpoints,
        Target("league", league.state, load_league, 15),
        Target("policy", league.exported, league.load_exported, 15),
        Target("configuration", league.state["config"], league.load_config, 5),
        Target("rollout", *rollout_files(league, folder), 15),
        Target("run folder", *run_folder(league, folder), 4),
    ]


class Run:
    """The parts of a run that was trained for three iterations, and its state."""

    def __init__(self, name: str, options: tuple[str, ...], folder: Path) -> None:
        composed = compose_all("train", [*SMALL, *options])
        self.choices = dict(composed.hydra.runtime.choices)
        with open_dict(composed):
            del composed["hydra"]
        self.cfg, self.origin = composed, f"{name}.ckpt"
        directory: Any = SimpleNamespace(path=folder)
        plan = Plan(composed, self.choices, directory, [], None, "nothing", 0, 10**9, 0)
        self.parts: Parts = build_parts(plan)
        self.frames = iter(self.parts.collector)
        self.file = os.memfd_create(name)
        self.accepted = 0
        for iteration in range(1, 4):
            self.train(iteration)
        policy = self.parts.agent.policy
        request = {"iteration": 2, "frames": 16, "version": 2, "weights": dict(policy.state_dict())}
        state = {
            "agent": self.parts.agent.state_dict(),
            "env": self.parts.env.runtime_state(),
            "collector": self.parts.collector.runtime_state(),
            "curriculum": self.parts.curriculum.state_dict(),
            "loggers": {"WandbLogger": {"id": "abc"}},
            "evaluations": [request] if name == "memory" else [],
            "rng": rng_state(),
            "iteration": 3,
            "frames": 24,
            "config": to_json(composed),
            "choices": self.choices,
        }
        path = folder / f"{name}.ckpt"
        write_state(path, state, frames=24, score=None)
        self.state = load(path)  # in memory of its own
        kept = ("config", "choices", "frames", "iteration")
        self.exported = {key: self.state[key] for key in kept}
        self.exported["agent"] = {"policy": self.state["agent"]["policy"]}

    def train(self, iteration: int) -> None:
        """Collect, learn, and let the curriculum react."""
        rollout = next(self.frames)
        with self.parts.collector.ahead():
            self.parts.agent.update(rollout)
        self.parts.curriculum.after(iteration, 8 * iteration, rollout, lambda _: None)
        self.rollout = rollout.clone()

    def load(self, state: Any, dice: random.Random) -> None:
        """Load as a resume does; show and compare as `navrl checkpoint` does."""
        if dice.randrange(FILE_EVERY) == 0:
            state = self.through_a_file(state)
        check_storable(state)
        if dice.randrange(FILE_EVERY) == 0:
            list(checkpoint_command._tree(state, 3, 0))
            list(map(checkpoint_command._difference_row, differing(self.state, state)))
        check_run_state(state, self.origin)
        changes = {name for name in self.state if state.get(name) is not self.state[name]}
        try:
            self.restore(state, changes)
            if dice.randrange(TRAIN_EVERY) == 0:
                changes |= {"agent", "env", "curriculum", "collector"}
                self.train(4)
        finally:
            self.restore(self.state, changes)

    def restore(self, state: dict[str, Any], changes: set[str]) -> None:
        """Load the parts that differ, as all are loaded in a resume."""
        if changes & {"agent", "evaluations"}:
            load_agent(self.parts.agent, state, self.origin)
        if changes & {"env", "curriculum", "collector"}:
            load_episodes(self.parts, state)
        set_rng_state(state["rng"])

    def through_a_file(self, state: Any) -> Any:
        """Return what is read from a file that holds the state."""
        check_storable(state)
        path = Path(f"{self.origin}.changed")
        write_state(path, state, frames=24, score=None)
        return load(path)

    def load_exported(self, state: Any, dice: random.Random) -> None:
        """Load as evaluate, replay and an opponent do."""
        check_storable(state)
        check_policy_state(state, self.origin)
        if dice.randrange(BUILD_EVERY) == 0:
            load_policy(self.cfg, state, self.parts.env, self.origin)

    def load_config(self, config: Any, dice: random.Random) -> None:
        """Read a stored configuration as a resume and an evaluation do."""
        check_storable({"config": config})
        state = self.exported | {"config": config}
        check_policy_state(state, self.origin)
        from_json(config)
        if dice.randrange(BUILD_EVERY) == 0:
            chosen = resumed(config, self.choices, self.cfg, [], self.choices)
            _iterations(chosen, state)
            config = evaluation_config(from_json(config), {})
            build(config.env, from_checkpoint=True)
            build(config.agent, from_checkpoint=True)


def check_storable(state: Any) -> None:
    """Raise Refused for what no file can hold, or what is refused already when a file is read."""
    if not isinstance(state, dict):
        raise Refused
    try:
        flatten(state)
    except (TypeError, ValueError) as error:
        raise Refused from error


def load_league(state: Any, dice: random.Random) -> None:
    """Print a league as `navrl evaluate league=` does."""
    del dice
    check_storable(state)
    payoff = league_of(state, "x")
    league_table(payoff)
    league_record(payoff)


def rollout_files(run: Run, folder: Path) -> tuple[Any, Callable[[Any, random.Random], None]]:
    """Return the metadata and tensors of a rollout, and their loader."""
    storage = RolloutStorage(directory=folder, save_every=1, keep_last=1, drop=[], compress=False)
    tensors, meta = container.read(storage.save(run.rollout, iteration=1))
    path = folder / "rollout_000002.nvrl"

    def read(tree: Any, dice: random.Random) -> None:
        del dice
        try:
            container.write(path, tree["tensors"], tree["meta"])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise Refused from error
        load_rollout(path)
        run_command(rollouts.main, "show", str(path))

    return {"meta": meta, "tensors": tensors}, read


def run_folder(run: Run, folder: Path) -> tuple[Any, Callable[[Any, random.Random], None]]:
    """Return the readable files of a run, and their readers: `navrl report`, and the logger of a resume."""
    path = folder / "run"
    path.mkdir()
    row = {
        "reward/kill": 0.5,
        "episode/win": 0.25,
        "eval/win": None,
        "skill/0": 1.0,
        "loss/policy": 1e-3,
    }
    tree = {
        "metrics.jsonl": [{"iteration": i, "frames": 8 * i, **row} for i in range(1, 4)],
        "config.yaml": to_json(run.cfg),
        "overrides.yaml": ["env=combat", "seed=1"],
        "status.json": {"state": "finished"},
        "summary.json": {"episode/win": 0.25},
    }

    def read(found: Any, dice: random.Random) -> None:
        files = found if isinstance(found, dict) else {}
        for name in tree:
            content = files.get(name, {})
            lines = content if name.endswith("jsonl") and isinstance(content, list) else [content]
            text = "\n".join(json.dumps(line, default=str) for line in lines) + "\n"
            if dice.random() < 0.05:
                text = text.replace(
                    *dice.choice((("}", ""), ("1", "9" * 400), ("\n", ""), (":", "\0")))
                )
            (path / name).write_text(text, encoding="utf-8")
        list(read_metrics(path / "metrics.jsonl"))
        logger = JsonlLogger(directory=path)
        logger.truncate_after(16)
        logger.close()
        run_command(report.main, str(path), "--output", str(folder / "report"))

    return tree, read


def run_command(main: Callable[[list[str]], int], *arguments: str) -> None:
    """Run a command silently; raise Refused if it ended with a sentence."""
    silent = io.StringIO()
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        if main([*arguments]):
            raise Refused


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _memory_folder() -> str | None:
    """Return a folder in memory, where syncing costs nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
