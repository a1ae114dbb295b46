"""Checkpoints with right checksums and wrong content: each command ends in a sentence and changes nothing."""

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import navrl.evaluate
import navrl.train
from navrl.commands import checkpoint, replay
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from tests.command_line import command

pytestmark = pytest.mark.hostile
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "eval_episodes=1"),
    *(
        "num_envs=8",
        "total_frames=128",
        "compile=off",
        "env.sim.tick_s=0.25",
        "hydra.run.dir=outputs/run",
    ),
    *("curriculum=league", "curriculum.self_play.snapshot_every=64", "collector=pipelined"),
)
RESUME = ("resume=bad.ckpt", "total_frames=256", "hydra.run.dir=outputs/new", "console=none")
ONE = ("num_episodes=1", "compile=off", "env.sim.tick_s=0.25")
NAN = torch.tensor(math.nan)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder, with a run that was trained for two iterations."""
    place = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert command(navrl.train.main, *TINY) == 0
        yield place


def state_of(folder: Path) -> dict[str, Any]:
    return load(find("outputs/run", folder))


def put(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Replace what is at a place of the tree, of numbers and names; a function is called with the old."""

    def change(state: dict[str, Any]) -> None:
        *path, last = (int(word) if word.isdigit() else word for word in place.split("/"))
        node: Any = state
        for word in path:
            node = node[word]
        node[last] = value(node[last]) if callable(value) else value

    return change


def drop(place: str) -> Callable[[dict[str, Any]], None]:
    """Remove what is at a place of the tree."""

    def change(state: dict[str, Any]) -> None:
        *path, last = place.split("/")
        node: Any = state
        for word in path:
            node = node[word]
        del node[last]

    return change


WEIGHT = "agent/policy/trunk.layers.4.weight"
MOMENT = "agent/optimizer/state/0"
LEAGUE = "curriculum/league"
# What resume=, evaluate and replay refuse alike.
POLICIES = {
    "frames negative": (put("frames", -1), "frames is -1"),
    "frames a string": (put("frames", "128"), "frames is '128'"),
    "frames a tensor": (put("frames", torch.ones(2)), "frames is float32 2"),
    "iteration none": (put("iteration", None), "iteration is None"),
    "choices a list": (put("choices", ["agent"]), "choices is a list of 1"),
    "choices of numbers": (put("choices/agent", 3), "choices/agent is 3"),
    "config a string": (put("config", "combat"), "config is 'combat'"),
    "agent a tensor": (put("agent", torch.zeros(3)), "agent is float32 3"),
    "policy a list": (put("agent/policy", list), "agent/policy is a list"),
    "weight a number": (put(WEIGHT, 1.0), "is 1.0; expected a tensor"),
    "weight of another shape": (put(WEIGHT, lambda w: w[:-1]), "has shape"),
    "weight of another dtype": (put(WEIGHT, lambda w: w.double()), "has dtype"),
    "weight absent": (drop(WEIGHT), "is in the model but not in"),
    "weight not a number": (put(WEIGHT, lambda w: w * NAN), "holds numbers that are not finite in"),
    "weight infinite": (put(WEIGHT, lambda w: w / 0.0), "holds numbers that are not finite in"),
}
# What only a resume reads.
RUNS = {
    "frames below iterations": (put("iteration", 10**6), "frames is 128; expected a whole number"),
    "envs none": (put("config/num_envs", None), "config/num_envs is None"),
    "envs negative": (put("config/num_envs", -8), "config/num_envs is -8"),
    "envs absent": (drop("config/num_envs"), "config/num_envs is absent"),
    "moment of another shape": (put(f"{MOMENT}/exp_avg", torch.zeros(3)), f"{MOMENT}/exp_avg is"),
    "moment negative": (put(f"{MOMENT}/exp_avg_sq", lambda m: m - 1), f"{MOMENT}/exp_avg_sq is"),
    "moment not a number": (put(f"{MOMENT}/exp_avg", lambda m: m * NAN), "not finite in optimizer"),
    "count of steps negative": (put(f"{MOMENT}/step", lambda n: -n), f"{MOMENT}/step is"),
    "count of steps a list": (put(f"{MOMENT}/step", [1]), f"{MOMENT}/step is a list"),
    "parameter groups empty": (
        put("agent/optimizer/param_groups", []),
        "param_groups is a list of 0",
    ),
    "schedule negative": (put("agent/schedule", -3), "agent/schedule is -3"),
    "critic absent": (drop("agent/critic"), "agent/critic is absent"),
    "former policy of another shape": (put("agent/lag/version", 0.5), "agent/lag/version is 0.5"),
    "world of another dtype": (put("env/world/0", lambda w: w.double()), "env/world/0 is float64"),
    "world not a number": (put("env/world/0", lambda w: w * NAN), "env/world/0 is"),
    "world of too few tensors": (put("env/world", lambda w: w[:2]), "env/world is a list of 2"),
    "seed a number": (put("env/seed", 3), "env/seed is 3"),
    "frame without observation": (drop("collector/carrier/observation"), "observation is absent"),
    "frame of another shape": (
        put("collector/carrier/done", torch.zeros(8).bool()),
        "done is bool 8",
    ),
    "frame with more": (put("collector/carrier/next", {}), "carrier/next is unknown"),
    "stage unknown": (put("curriculum/stage", "x" * 1000), "the checkpoint is in lesson 'xxx"),
    "stage a list": (put("curriculum/stage", []), "the checkpoint is in lesson []"),
    "old stage outside": (put("curriculum/old_stage", 7), "curriculum/old_stage is 7"),
    "frames of lessons": (put("curriculum/spent", [1]), "curriculum/spent is a list"),
    "snapshot of another name": (put(f"{LEAGUE}/snapshots/latest", {}), "has the key 'latest'"),
    "snapshot without weights": (put(f"{LEAGUE}/snapshots/snapshot000", {}), "is absent"),
    "snapshot not finite": (
        put(f"{LEAGUE}/snapshots/snapshot000/trunk.layers.4.bias", lambda w: w * NAN),
        "with numbers that are not finite",
    ),
    "seat of nobody": (put(f"{LEAGUE}/seated", ["snapshot900"]), f"{LEAGUE}/seated/0 is"),
    "league that made fewer": (put(f"{LEAGUE}/made", 0), f"{LEAGUE}/made is 0"),
    "games of strangers": (
        put(f"{LEAGUE}/payoff/games", [["x", "y", 1, 0, 0]]),
        "payoff/games/0/0 is 'x'",
    ),
    "rating not a number": (put(f"{LEAGUE}/elo/learner", math.nan), "elo/learner is nan"),
    "requests a dict": (put("evaluations", {}), "evaluations is a dict"),
    "request without weights": (put("evaluations", [{"iteration": 1}]), "evaluations/0/"),
    "request of another policy": (
        put("evaluations", [{"iteration": 1, "frames": 1, "version": 1, "weights": {}}]),
        "evaluations/0/weights/",
    ),
    "loggers a list": (put("loggers", [1]), "loggers is a list"),
    "python's words": (put("rng/python/words", lambda w: w[:-1]), "rng/python/words is int64 624"),
    "python's position": (put("rng/python/words", lambda w: w * 0 + 700), "words/624 is 700"),
    "numpy's words": (put("rng/numpy/words", lambda w: w - 2**33), "rng/numpy/words is int64 624"),
    "numpy's generator": (put("rng/numpy/bit_generator", "PCG64"), "bit_generator is 'PCG64'"),
    "torch's bytes": (put("rng/torch", lambda w: w * 0 + 255), "rng/torch is no state"),
    "torch's bytes as floats": (put("rng/torch", lambda w: w.float()), "rng/torch is float32"),
}


def spoil(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    state = state_of(folder)
    change(state)
    write_state(folder / "bad.ckpt", state, frames=128, score=None)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(main: Callable[..., Any], *words: str) -> int:
    """The exit code of a command; those without Hydra return it."""
    hydra = main in (navrl.train.main, navrl.evaluate.main)
    return command(main, *words) if hydra else main([*words])


def assert_refused(
    capsys: pytest.CaptureFixture[str],
    main: Callable[[], object],
    words: tuple[str, ...],
    sentence: str,
) -> None:
    capsys.readouterr()
    assert run(main, *words) == 2
    *progress, line = capsys.readouterr().err.strip().splitlines()
    assert not any("rror" in other for other in progress)
    assert line.startswith("navrl: error: ")
    assert sentence in line
    assert "; " in line, "where to change it"
    assert len(line) < 600


@pytest.mark.parametrize("case", POLICIES | RUNS)
def test_a_resume_refuses_it_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    change, sentence = (POLICIES | RUNS)[case]
    spoil(folder, change)
    before = files(folder)
    assert_refused(capsys, navrl.train.main, RESUME, sentence)
    assert files(folder) == before
    assert not (folder / "outputs" / "new").exists()
    assert run(checkpoint.main, "show", "bad.ckpt") == 0
    assert run(checkpoint.main, "diff", "bad.ckpt", "outputs/run") == 1


@pytest.mark.parametrize("case", POLICIES)
def test_evaluate_replay_and_an_opponent_refuse_it(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    change, sentence = POLICIES[case]
    spoil(folder, change)
    assert_refused(capsys, navrl.evaluate.main, ("checkpoint=bad.ckpt", *ONE), sentence)
    assert_refused(capsys, replay.main, ("bad.ckpt",), sentence)
    opponent = ("checkpoint=scripted:crank", *ONE, "opponent=checkpoint:bad.ckpt")
    assert_refused(capsys, navrl.evaluate.main, opponent, sentence)


@pytest.mark.parametrize(
    "payoff",
    [
        None,
        {"players": "ab", "games": []},
        {"players": ["a", "b"], "games": [["a", "b", 1, 0]]},
        [],
    ],
    ids=str,
)
def test_a_table_of_a_league_refuses_it(
    folder: Path, capsys: pytest.CaptureFixture[str], payoff: Any
) -> None:
    spoil(folder, put(f"{LEAGUE}/payoff", payoff))
    assert_refused(capsys, navrl.evaluate.main, ("league=bad.ckpt",), f"{LEAGUE}/payoff")


def test_the_state_itself_is_resumed_and_evaluated(folder: Path) -> None:
    spoil(folder, lambda _: None)
    assert command(navrl.train.main, *RESUME) == 0
    shutil.rmtree(folder / "outputs" / "new")
    assert command(navrl.evaluate.main, "checkpoint=bad.ckpt", *ONE) == 0
