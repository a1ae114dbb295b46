"""Runs of as many shards are the same to the bit, by however many ranks."""

import signal

import pytest

from navrl.storage.checkpoint import load
from navrl.storage.compare import differences
from navrl.storage.find import find
from tests.halting import STOP_AFTER, train_and_halt, untimed_rows
from tests.ranks.several import train_with

pytestmark = pytest.mark.commands
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "eval_episodes=2"),
    *("rollout_steps=4", "hydra.run.dir=outputs/run"),
)
PPO = ("agent.network.precision=fp32", "agent.num_minibatches=2")
# Shards of 32 envs: torch computes fewer by other instructions, which round otherwise.
TWO, THREE, FOUR = (
    (f"num_envs={32 * n}", f"shards={n}", f"total_frames={512 * n}") for n in (2, 3, 4)
)
COMBAT = ("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", *PPO)
NEAR = (
    *PPO,
    "world.count=2",
    "env.sim.time_limit_s=2",
    "world.map.count=30",
    "world.difficulty.static=30",
)
CASES = {
    "combat, four ranks": (
        4,
        (*FOUR, *COMBAT, "agent.value_normalisation=ema", "checkpoint=async"),
    ),
    "league, three ranks": (
        3,
        (*THREE, *COMBAT, "curriculum=league", "curriculum.self_play.snapshot_every=384"),
    ),
    "teams with memory": (
        2,
        (
            *(*TWO, *COMBAT, "env.team_size=2", "observation=entities", "action=discrete_fine"),
            *("agent.network.rnn=gru", "agent.network.chunk_length=4"),
        ),
    ),
    "navigation, pipelined": (
        2,
        (*TWO, "env=navigation", "agent=ppo_navigation", *NEAR, "collector=pipelined"),
    ),
    "coverage, part by part": (
        2,
        (*TWO, "env=coverage", "agent=mappo", *PPO, "env.sim.horizon=20", "agent.accumulate=2"),
    ),
    "skills": (2, (*TWO, "env=alice_and_bob", "env.sim.size=3", "agent=hmasd", "agent.k=2")),
}


def outcome(folder):
    """Every leaf of the last checkpoint, and every number of every row but times and memory."""
    run = folder / "outputs" / "run"
    return load(find(str(run), folder)), untimed_rows(run)


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_ranks_makes_the_same_run(tmp_path, case):
    ranks, options = CASES[case]
    for number in (1, ranks):
        (first, *others) = train_with(number, *TINY, *options, folder=tmp_path / str(number))
        assert first.returncode == 0, first.stderr
        assert [each.returncode for each in others] == [0] * (number - 1), others
        assert not any(each.stdout or each.stderr for each in others)
    (state, rows), (expected, expected_rows) = (
        outcome(tmp_path / str(ranks)),
        outcome(tmp_path / "1"),
    )
    assert len(rows) == len(expected_rows) == 4
    assert rows == expected_rows
    assert differences(state, expected) == []


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path):
    words = (*TINY, *FOUR, *COMBAT)
    train_with(2, *words, folder=tmp_path / "whole")
    (stopped, *others) = train_with(
        4, *words, folder=tmp_path / "parts", main=train_and_halt, environment={STOP_AFTER: "2"}
    )
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    assert [each.returncode for each in others] == [0, 0, 0], others
    again = ("resume=outputs/run", "logger=none", "console=none")
    (done,) = train_with(1, *again, folder=tmp_path / "parts")
    assert done.returncode == 0, done.stderr
    (state, rows), (expected, expected_rows) = (
        outcome(tmp_path / "parts"),
        outcome(tmp_path / "whole"),
    )
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    assert rows == expected_rows
    assert differences(state, expected) == []


def test_policies_that_options_name_are_those_of_rank_0(tmp_path):
    """The other rank is on a host without any run."""
    (tmp_path / "empty").mkdir()
    other = (*TINY, *COMBAT, "num_envs=64", "total_frames=256", "hydra.run.dir=outputs/other")
    words = (*TINY, *TWO, *COMBAT, "init=latest", "opponent=checkpoint")
    for number in (1, 2):
        folder = tmp_path / str(number)
        train_with(1, *other, folder=folder)
        ended = train_with(number, *words, folder=folder, elsewhere=tmp_path / "empty")
        assert [each.returncode for each in ended] == [0] * number, ended
        assert "beginning with 9 of 9 tensors of the policy" in ended[0].stdout
    (state, rows), (expected, expected_rows) = (outcome(tmp_path / str(n)) for n in (2, 1))
    assert rows == expected_rows
    assert differences(state, expected) == ["/config/opponent/checkpoint"]  # each in its own folder
