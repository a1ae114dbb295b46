"""env=pettingzoo: agents that come, leave and are cut, under the keys of our teams."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torchrl.envs.utils import check_env_specs

from navrl.config.checks import ConfigError
from navrl.envs.external.pettingzoo import PettingZooEnv


class Relay:
    """Agent i leaves after i + 2 steps; with `cut` all are cut after 3. The reward is the action, plus i."""

    def __init__(self, cut=False, odd=False):
        self.possible_agents, self.cut, self.odd = ["a", "b"], cut, odd
        self.agents = []

    def observation_space(self, name):
        return spaces.Box(-9, 9, (2 + (self.odd and name == "b"),), np.float32)

    def action_space(self, name):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = [*self.possible_agents], 0
        return self._seen(self.agents), {}

    def step(self, actions):
        assert actions.keys() == set(self.agents)
        self.steps, acting = self.steps + 1, self.agents
        places = {name: self.possible_agents.index(name) for name in acting}
        reward = {name: float(actions[name] + places[name]) for name in acting}
        over = {name: self.steps == places[name] + 2 for name in acting}
        cut = dict.fromkeys(acting, self.cut and self.steps == 3)
        self.agents = [name for name in acting if not (over[name] or cut[name])]
        return self._seen(acting), reward, over, cut, {}

    def _seen(self, names):
        places = {name: self.possible_agents.index(name) for name in names}
        return {name: np.array([i, self.steps], np.float32) for name, i in places.items()}

    def close(self):
        """Nothing is open."""


def make(id=None, *, worlds=Relay, num_envs=2, **options):
    return PettingZooEnv(
        id=id,
        worlds=worlds,
        options=options,
        name="pettingzoo",
        headline={},
        objective="return",
        horizon=None,
        num_envs=num_envs,
        device="cpu",
        seed=0,
    )


def played(env, steps):
    """The frames of the first world while everybody always takes action 1."""
    frames, root = [], env.reset()
    for _ in range(steps):
        ones = env.full_action_spec.zero()
        ones["agents", "action"] += 1
        stepped, root = env.step_and_maybe_reset(root.update(ones))
        frames.append(stepped[0].clone())
    return torch.stack(frames)


def test_an_agent_that_has_left_is_dead_and_the_last_one_ends_the_episode():
    frames = played(make(), 4)
    ahead = frames["next"]
    assert ahead["agents", "alive"].squeeze(-1).tolist() == [[1, 1], [0, 1], [0, 1], [1, 1]]
    assert ahead["agents", "observation", "features"].tolist() == [
        [[0, 1], [1, 1]],
        [[0, 0], [1, 2]],
        [[0, 0], [1, 3]],
        [[0, 1], [1, 1]],
    ]
    assert ahead["agents", "reward"].squeeze(-1).tolist() == [[1, 2], [1, 2], [0, 2], [1, 2]]
    assert ahead["reward"].flatten().tolist() == [1.5, 1.5, 1.0, 1.5]
    assert ahead["terminated"].flatten().tolist() == [False, False, True, False]
    assert not ahead["truncated"].any()
    assert ahead["episode"].tolist() == [[1.5, 1], [3.0, 2], [4.0, 3], [1.5, 1]]
    assert frames["agents", "alive"][3].all()


def test_a_cut_episode_is_truncated():
    ahead = played(make(cut=True), 3)["next"]
    assert ahead["truncated"].flatten().tolist() == [False, False, True]
    assert not ahead["terminated"].any()


def test_it_keeps_the_specs_that_it_declares():
    check_env_specs(make(num_envs=3))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (make, "env.id = None"),
        (lambda: make("sisl/chess_v9", worlds=None), "expected a parallel world such as"),
        (lambda: make(odd=True), "differ in observation_space"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(made, sentence):
    with pytest.raises(ConfigError, match=sentence):
        made() if made is not make else make(worlds=None)
