"""Our worlds for other libraries: the same episodes, in their words."""

import math
import re

import gymnasium
import numpy as np
import pytest
import torch
from pettingzoo.test import parallel_api_test
from stable_baselines3 import PPO

from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.export import spaces
from navrl.export.gymnasium import GymnasiumVectorEnv
from navrl.export.pettingzoo import PettingZooParallelEnv
from navrl.export.stable_baselines3 import StableBaselinesVecEnv
from navrl.run.build import build_env

FIGHT = ("env=combat", "env.sim.time_limit_s=6", "opponent=pursuit")
TEAM = ("env=combat", "env.team_size=2", "observation=entities", "env.sim.time_limit_s=60")


def make(*overrides, num_envs=3):
    cfg = compose("train", ["compile=off", *overrides])
    return build_env(cfg, num_envs=num_envs, seed=0)


def test_a_vector_env_plays_the_episodes_of_the_env():
    worlds, env = GymnasiumVectorEnv(make(*FIGHT)), make(*FIGHT)
    env.set_seed(7)
    seen, frame = worlds.reset(seed=7)[0], env.reset()
    worlds.action_space.seed(0)
    for step in range(1, 15):
        assert worlds.observation_space.contains(seen)
        for name, rows in frame["observation"].items():
            np.testing.assert_array_equal(seen[name], rows)
        np.testing.assert_array_equal(seen["action_mask"], frame["action_mask"])
        action = worlds.action_space.sample()
        seen, reward, terminated, truncated, infos = worlds.step(action)
        stepped, frame = env.step_and_maybe_reset(frame.set("action", torch.from_numpy(action)))
        ahead = stepped["next"]
        np.testing.assert_array_equal(reward, ahead["reward"].squeeze(-1).double())
        np.testing.assert_array_equal(terminated, ahead["terminated"].squeeze(-1))
        np.testing.assert_array_equal(truncated, ahead["truncated"].squeeze(-1))
        assert bool(infos) == (step % 6 == 0)  # six decisions of a second each
        if infos:
            assert infos["statistics"]["length"].tolist() == [6.0] * 3
            for place, last in enumerate(infos["final_obs"]):
                np.testing.assert_array_equal(last["ego"], ahead["observation", "ego"][place])
                assert not np.array_equal(last["ego"], seen["ego"][place])


def test_wrappers_of_gymnasium_take_it():
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(GymnasiumVectorEnv(make(*FIGHT)))
    wrapped.reset(seed=1)
    for _ in range(6):
        infos = wrapped.step(wrapped.action_space.sample())[-1]
    assert infos["episode"]["l"].tolist() == [6] * 3


@pytest.mark.parametrize(
    "overrides",
    [
        TEAM,
        (*TEAM, "action=continuous"),
        ("env=alice_and_bob",),
        ("env=coverage", "env.reward_split=per_agent"),
    ],
    ids=lambda overrides: " ".join(overrides[:2] + overrides[4:]),
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_teams_pass_the_test_of_pettingzoo(overrides):
    parallel_api_test(PettingZooParallelEnv(make(*overrides, num_envs=1)), num_cycles=40)


def test_the_dead_leave_and_the_last_step_has_the_statistics():
    world = PettingZooParallelEnv(make(*TEAM, "opponent=crank", num_envs=1))
    world.reset(seed=3)
    left = set()
    while world.agents:
        acting = set(world.agents)
        *_, terminated, truncated, infos = world.step({})
        left = acting - set(world.agents)
        assert left == {name for name in acting if terminated[name] or truncated[name]}
    assert left
    assert infos[left.pop()]["statistics"]["length"] == world._frame["episode"][0, 1].item()


def test_stable_baselines_learns_from_it():
    model = PPO("MultiInputPolicy", StableBaselinesVecEnv(make(*FIGHT)), n_steps=12, batch_size=18)
    before = [weight.clone() for weight in model.policy.parameters()]
    model.learn(36)
    assert any(
        not torch.equal(old, new)
        for old, new in zip(before, model.policy.parameters(), strict=True)
    )
    assert [entry["l"] for entry in model.ep_info_buffer] == [6.0] * 6


def test_the_example_of_the_docs_runs(root):
    text = (root / "docs/other_worlds.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block.replace("1_000_000", "1"), "docs/other_worlds.md", "exec"), {})


@pytest.mark.parametrize(
    ("kind", "actions", "sentence"),
    [
        ("discrete", [[1, 0], [3, 1], [0, 0]], "has 3; expected choices .* below \\[3, 2\\]"),
        ("discrete", [[1, 0], [0, -1], [0, 0]], "has -1; expected choices"),
        ("discrete", [[1.5, 0], [0, 1], [0, 0]], "has 1.5; expected choices"),
        ("discrete", [[1, 0]], r"array of int64 and shape \(1, 2\); expected choices"),
        ("discrete", "left", "expected choices"),
        (
            "continuous",
            [[0, 0, 0], [0, 1.1, 0], [0, 0, 0]],
            r"has 1.1; expected numbers .* from \[-1",
        ),
        ("continuous", [[0, 0, 0], [math.nan, 1, 0], [0, 0, 0]], "has nan; expected numbers"),
    ],
)
def test_actions_that_cannot_be_are_refused_and_change_nothing(kind, actions, sentence):
    worlds = GymnasiumVectorEnv(make(*FIGHT, f"action={kind}"))
    worlds.reset()
    with pytest.raises(ConfigError, match=sentence):
        worlds.step(np.array(actions))
    assert worlds.env._world.length.tolist() == [0.0, 0.0, 0.0]


def test_actions_that_another_library_has_rounded_are_within_the_bounds():
    spec = make(*FIGHT, "action=continuous").action_spec
    given = np.array([[1.000001, -0.000001, 0.7]] * 3)
    assert spaces.actions(given, spec).tolist() == [[1.0, 0.0, 1.0]] * 3


@pytest.mark.parametrize(
    ("kind", "overrides", "sentence"),
    [
        (GymnasiumVectorEnv, ("env=coverage",), "has a team"),
        (PettingZooParallelEnv, ("env=coverage",), r"batch size \(3,\)"),
        (PettingZooParallelEnv, FIGHT, "expected one simulation of a team"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(kind, overrides, sentence):
    with pytest.raises(ConfigError, match=sentence):
        kind(make(*overrides))
