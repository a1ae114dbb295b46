"""A run that is stopped half way and resumed ends with the same bits, for every agent and saver."""

import signal

import pytest

from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find
from tests.command_line import process
from tests.halting import STOP_AFTER, train_and_halt, untimed_rows

pytestmark = pytest.mark.commands
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "eval_episodes=2"),
    *("num_envs=8", "total_frames=256", "resume=auto", "hydra.run.dir=outputs/run"),
)
COMBAT = ("env.sim.tick_s=0.25", "env.sim.time_limit_s=12")
FOREST = ("world.count=2", "env.sim.time_limit_s=2")
NEAR = (*FOREST, "world.map.count=30", "world.difficulty.static=30")
GRID = ("env=alice_and_bob", "env.sim.size=3", "env.sim.horizon=20")
DRONES = ("env.sim.num_users=10", "env.sim.horizon=20")
CASES = {
    "combat": COMBAT,
    "combat async": (*COMBAT, "checkpoint=async", "checkpoint.save_every=1", "seed=3"),
    "combat rollouts": (
        *(*COMBAT, "rollouts=disk", "rollouts.save_every=1", "rollouts.keep_last=3"),
        "rollouts.drop=[episode]",
    ),
    "combat continuous": (*COMBAT, "action=continuous", "observation=entities"),
    "combat teams": (
        *(*COMBAT, "env.team_size=2", "observation=entities"),
        *("action=discrete_fine", "checkpoint=async"),
    ),
    "combat cold_start": (  # its gates want 30 episodes against each opponent
        *(*COMBAT, "curriculum=cold_start", "curriculum.check_every=2"),
        *("num_envs=120", "rollout_steps=4", "total_frames=1920"),
    ),
    "combat league": (
        *(*COMBAT, "curriculum=league", "curriculum.self_play.snapshot_every=64"),
        "checkpoint=async",
    ),
    "combat league pipelined": (
        *(*COMBAT, "curriculum=league", "curriculum.self_play.snapshot_every=64"),
        "collector=pipelined",
    ),
    "combat memory": (*COMBAT, "agent.network.rnn=gru", "agent.num_minibatches=4"),
    "combat values": (*COMBAT, "eval_every=2", "agent.value_normalisation=ema"),
    "navigation": ("env=navigation", "agent=ppo_navigation", *NEAR),
    "navigation compressed": (
        *("env=navigation", "agent=ppo_navigation", "collector=compressed"),
        *NEAR,
    ),
    "navigation ppo async": ("env=navigation", *NEAR, "checkpoint=async"),
    "navigation crowds": (
        *("env=navigation", "agent=ppo_navigation", "curriculum=crowds"),
        *FOREST,
    ),
    "compat ppo_navrl": ("env=navigation_compat", "agent=ppo_navrl", *FOREST),
    "ippo": (*GRID, "agent=ippo", "agent.team.agent_id=true"),
    "ippo pipelined": (*GRID, "agent=ippo", "collector=pipelined"),
    "mappo": ("env=coverage", *DRONES, "agent=mappo", "env.reward_split=per_agent"),
    "relay": (
        "env=coverage_relay",
        *DRONES,
        "observation=relative",
        "agent.team.share_actor=false",
    ),
    "compat ppo_navigation": ("env=navigation_compat", "agent=ppo_navigation", *FOREST),
}


def run(folder, options, stop_after, code):
    folder.mkdir(exist_ok=True)
    environment = {STOP_AFTER: str(stop_after)}
    done = process(train_and_halt, *TINY, *options, folder=folder, environment=environment)
    assert done.returncode == code, done.stderr


def outcome(folder):
    """Every leaf of the last checkpoint, and every number of every row but times and memory."""
    state = load(find(str(folder / "outputs" / "run"), folder))
    return state, [
        {k: repr(v) for k, v in row.items()} for row in untimed_rows(folder / "outputs" / "run")
    ]


def rollouts(folder):
    """Files of collected experience, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.glob("outputs/run/rollouts/*")}


@pytest.mark.parametrize("case", CASES)
def test_half_and_half_is_the_whole(tmp_path, case):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    run(whole, CASES[case], -1, 0)
    run(halves, CASES[case], 2, 128 + signal.SIGTERM)
    assert [row["iteration"] for row in outcome(halves)[1]] == ["1", "2"]
    run(halves, CASES[case], -1, 0)
    (state, rows), (expected, expected_rows) = outcome(halves), outcome(whole)
    assert expected["iteration"] == 4
    assert differences(state, expected) == []
    assert rows == expected_rows
    assert rollouts(halves) == rollouts(whole)
    assert len(rollouts(whole)) == (3 if "rollouts" in case else 0)
