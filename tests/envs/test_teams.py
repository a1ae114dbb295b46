"""The commands with several aircraft a side: training, going on, measuring, plain words on mistakes."""

import json

import pytest
import torch

import navrl.commands.replay
import navrl.evaluate
import navrl.train
from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build
from navrl.storage.checkpoint import load
from tests.command_line import command
from tests.envs.conftest import configuration

pytestmark = pytest.mark.commands

TINY = ("experiment=debug", "logger=none", "console=none", "eval_opponents=[]")
FIGHT = (
    *("env.team_size=2", "observation=entities", "opponent=crank"),
    # Near enough that some are shot within the first seconds, and the others play on.
    *("scenario.range_m=[3000,7000]", "env.sim.time_limit_s=15", "env.sim.tick_s=0.25"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of four iterations; its second half made again by a branch."""
    folder = tmp_path_factory.mktemp("team")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        options = (*FIGHT, "total_frames=512", "checkpoint.save_every=2", "seed=3")
        assert command(navrl.train.main, *TINY, *options, "hydra.run.dir=whole") == 0
        half = folder / "whole/checkpoints/step_000000000256.ckpt"
        assert command(navrl.train.main, f"resume={half}", "hydra.run.dir=branch") == 0
    return folder


def leaves(tree, path=""):
    """Every value of nested dicts and lists, by its path."""
    if isinstance(tree, (dict, list, tuple)):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {k: v for key, value in items for k, v in leaves(value, f"{path}/{key}").items()}
    return {path: tree}


def test_a_team_learns_and_a_resumed_one_ends_at_the_same_bits(run):
    name = "checkpoints/step_000000000512.ckpt"
    whole, branch = (load(run / part / name) for part in ("whole", "branch"))
    assert whole["iteration"] == branch["iteration"] == 4
    for part in ("agent", "env", "collector", "rng"):
        expected, found = leaves(whole[part]), leaves(branch[part])
        assert expected.keys() == found.keys()
        for path, value in expected.items():
            same = (
                torch.equal(value, found[path]) if torch.is_tensor(value) else value == found[path]
            )
            assert same, f"{part}{path}"
    half = leaves(load(run / "whole/checkpoints/step_000000000256.ckpt")["agent"]["policy"])
    moved = [not torch.equal(half[path], leaves(whole["agent"]["policy"])[path]) for path in half]
    assert all(moved)


def test_frames_of_the_dead_do_not_count():
    config = configuration("env=combat", "experiment=debug", *FIGHT)
    torch.manual_seed(0)
    env = build(config.env)(num_envs=16, device="cpu", seed=0)
    specs = {"observation_spec": env.observation_spec, "action_spec": env.action_spec}
    agent = build(config.agent)(**specs, device="cpu", num_iterations=3)
    collector = SyncCollector(env=env, policy=agent.policy, rollout_steps=8, total_frames=3 * 128)
    living = 0
    for rollout in collector:
        alive = rollout["agents", "alive"]
        living += alive.sum().item()
        assert agent.update(rollout)["loss/skipped_steps"] == 0.0
    assert agent.policy.trunk.encoder.normalisers["ego"].count.item() == living
    assert 0.5 * 3 * 256 < living < 3 * 256


def measured(folder, name):
    return json.loads((folder / name).read_text())["metrics"]


def test_a_team_is_measured_and_recorded(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    options = ("checkpoint=whole", "num_episodes=8", "output=whole.json")
    assert command(navrl.evaluate.main, *options) == 0, capsys.readouterr().err
    metrics = measured(run, "whole.json")
    assert metrics["win"]["mean"] + metrics["loss"]["mean"] + metrics["draw"]["mean"] == 1.0
    assert metrics["length"]["mean"] <= 15.0
    assert navrl.commands.replay.main(["whole", "--output", "whole.html"]) == 0, (
        capsys.readouterr().err
    )
    assert '"Blue 2"' in (run / "whole.html").read_text(encoding="utf-8")


def test_a_policy_that_was_trained_brings_its_own_fight(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert command(navrl.evaluate.main, "checkpoint=whole", "env.team_size=3") == 2
    one_sentence(capsys)


def test_a_policy_of_air_combat_is_not_put_into_another_env(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert command(navrl.evaluate.main, "checkpoint=whole", "env=coverage") == 2
    sentence = "'whole' was trained in env=combat and knows nothing of env=coverage; expected"
    assert sentence in one_sentence(capsys)


def one_sentence(capsys):
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert lines[0].startswith("navrl: error: ")
    return lines[0]


TWO = "env.team_size=2"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["env.team_size=0"], "env.team_size = 0; expected a whole number from 1 to 8"),
        (["env.team_size=9"], "env.team_size = 9; expected a whole number from 1 to 8"),
        (["env.team_size=1.5"], "team_size' must be int, but got 1.5"),
        (["env.team_size=four"], "team_size' must be int, but got 'four'"),
        (["env.sim.team_size=2"], "expected 1, which it takes from env.team_size"),
        (["scenario=nowhere"], "Unknown scenario 'nowhere'; available: "),
        (["env.sim.model=newton"], "expected one of exact, legacy; change env.sim.model"),
        (["observation=warp21", TWO], "change these or choose another observation"),
        ([TWO, "action.team_size=3"], "the aircraft on a side; change action.team_size"),
        ([TWO, "observation=entities", "observation.team_size=3"], "change observation.team_size"),
        (["env.sim.fighter.turn_radius_m=0"], "change env.sim.fighter.turn_radius_m"),
    ],
)
def test_a_fight_that_cannot_be_is_one_sentence_and_leaves_nothing(
    tmp_path, monkeypatch, capsys, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    assert command(navrl.train.main, *TINY, *arguments) == 2
    assert sentence in one_sentence(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("observation=ego", "a resumed run keeps its observation (entities), so observation=ego"),
        ("action=continuous", "a resumed run keeps its action (discrete), so action=continuous"),
        ("env.team_size=3", "use the same env and agent options"),
    ],
)
def test_a_run_does_not_go_on_as_another_one(run, monkeypatch, capsys, change, sentence):
    monkeypatch.chdir(run)
    before = sorted(run.rglob("*"))
    written = (run / "whole/metrics.jsonl").read_bytes(), (run / "whole/config.yaml").read_bytes()
    assert command(navrl.train.main, "resume=whole", "total_frames=1024", change) == 2
    assert sentence in one_sentence(capsys)
    assert sorted(run.rglob("*")) == before
    assert written == (
        (run / "whole/metrics.jsonl").read_bytes(),
        (run / "whole/config.yaml").read_bytes(),
    )
