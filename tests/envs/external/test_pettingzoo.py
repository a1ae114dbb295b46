"""env=pettingzoo: agents that come, leave and are cut, under the keys of our teams."""

import re
import shlex
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torchrl.envs.utils import check_env_specs

from navrl import train
from navrl.config.checks import ConfigError
from navrl.envs.external.pettingzoo import PettingZooEnv
from tests.command_line import command


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


class Without:
    """A finder in an installation without one package."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        """Fail as Python does where nothing is found."""
        if name == self.package:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


@pytest.mark.parametrize(
    ("id", "package", "install"),
    [
        ("mpe2/simple_spread_v3", "mpe2", "mpe2"),
        ("mpe2/simple_spread_v3", "pygame", "mpe2"),
        ("sisl/pursuit_v5", "pygame", "'pettingzoo[sisl]'"),
    ],
)
def test_what_a_world_needs_is_named_with_the_line_that_installs_it(
    monkeypatch, id, package, install
):
    for name in [*sys.modules]:
        if name.startswith(("mpe2", "pettingzoo.sisl", "pygame")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
    with pytest.raises(ConfigError) as refused:
        make(id, worlds=None)
    sentence = f"env.id = {id} needs {package}, which is not installed; pip install {install}"
    assert str(refused.value) == sentence


@pytest.mark.commands
def test_the_lines_of_the_document_train(root, tmp_path, monkeypatch):
    text = (root / "docs/other_worlds.md").read_text(encoding="utf-8")
    lines = re.findall(r"^navrl train (env=pettingzoo [^#\n]*)$", text, re.MULTILINE)
    assert len(lines) == 2  # those that need nothing more
    monkeypatch.chdir(tmp_path)
    short = ("num_envs=2", "rollout_steps=8", "total_frames=32", "env.horizon=8", "eval_episodes=2")
    for line in lines:
        assert command(train.main, *shlex.split(line), *short, "logger=none") == 0
