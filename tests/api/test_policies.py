"""navrl.load: the same actions as in the env, from plain arrays."""

import numpy as np
import pytest
import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl import train
from navrl.api.policies import load
from navrl.config.checks import ConfigError
from navrl.run.build import build_env
from navrl.run.policies import build_policy, find_policy
from tests.command_line import command

pytestmark = pytest.mark.commands

SHORT = ("experiment=debug", "total_frames=128", "eval_opponents=[]", "logger=none")
FIGHT = (*SHORT, "env.sim.time_limit_s=5")
RUNS = {
    "fight": FIGHT,
    "memory": (*FIGHT, "agent.network.rnn=gru", "agent.network.chunk_length=4"),
    "team": (*FIGHT, "env.team_size=2", "observation=entities", "agent=mappo"),
    "skills": (
        *("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "env.sim.horizon=20"),
        *("num_envs=4", "rollout_steps=30", "agent.k=7", "total_frames=120", "compile=off"),
        *("eval_episodes=4", "logger=none"),
    ),
}
STEPS = 12  # longer than an episode of five decisions


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of all kinds, as the train command leaves them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in RUNS.items():
        assert command(train.main, *words, f"hydra.run.dir={folder / name}", "console=none") == 0
    return folder


def arrays(frame, policy):
    """The parts of a frame that the policy reads, by their names."""
    return {name: frame[key].numpy() for name, key in policy._keys.items()}


@pytest.mark.parametrize("kind", RUNS)
def test_it_acts_as_in_the_env(runs, kind):
    name = str(runs / kind)
    setup = find_policy(name, device="cpu")
    env = build_env(setup.config, num_envs=3, seed=5, compile_mode="off")
    module, policy = build_policy(name, setup.config, setup.state, env), load(name)
    frame, begins = env.reset(), np.ones(3, bool)
    for _ in range(STEPS):
        found = policy.act(arrays(frame, policy), begins=begins)
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            stepped, frame = env.step_and_maybe_reset(module(frame))
        np.testing.assert_array_equal(found, stepped[env.action_key])
        begins = stepped["next", "done"].squeeze(-1).numpy()


def test_one_observation_is_a_batch_of_one(runs):
    policy = load(runs / "team")
    rng = np.random.default_rng(0)
    shapes = {name: shape for name, shape in policy.observation.items() if name[-5:] != "_mask"}
    one = {name: rng.normal(size=shape) for name, shape in shapes.items() if name != "alive"}
    masks = {
        name: np.ones(shape) for name, shape in policy.observation.items() if name[-5:] == "_mask"
    }
    many = {name: np.stack([value] * 2) for name, value in (one | masks).items()}
    action = policy.act(one | masks)
    assert action.shape == (2, 3)  # aircraft; rudder, load, trigger
    np.testing.assert_array_equal(policy.act(many), [action, action])
    tensors = {name: torch.as_tensor(value) for name, value in one.items()}
    found = policy.act(tensors | {name: torch.as_tensor(value) for name, value in masks.items()})
    assert torch.equal(found, torch.as_tensor(action))


def test_a_memory_is_of_as_many_simulations_as_before(runs):
    policy = load(runs / "memory")
    two, three = ({"ego": np.ones((n, *policy.observation["ego"]), np.float32)} for n in (2, 3))
    first = policy.act(two)
    with pytest.raises(ConfigError, match=r"of 3 simulations; expected 2 .* call reset\(\) first"):
        policy.act(three)
    policy.reset()
    np.testing.assert_array_equal(policy.act(three)[:2], first)


def test_it_draws_where_it_is_not_deterministic(runs):
    policy = load(runs / "fight")
    torch.manual_seed(0)
    seen = {"ego": np.zeros((200, *policy.observation["ego"]), np.float32)}
    assert len(np.unique(policy.act(seen), axis=0)) == 1
    assert len(np.unique(policy.act(seen, deterministic=False), axis=0)) > 1


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        ({}, "the observation has the parts"),
        ({"eg": np.zeros(3)}, "did you mean 'ego'"),
        ({"ego": np.zeros(3)}, r"part 'ego' of the observation has shape \(3,\); expected"),
        ({"action_mask": np.ones(7)}, "expected {'ego'"),
        (
            {"ego": np.zeros((0, 32))},
            r"expected \(32,\), or \(N, 32\) for N simulations, 1 or more",
        ),
        ({"ego": "abc"}, r"'ego' of the observation is no array of numbers .* shape \(32,\)"),
        ({"ego": np.full(32, np.nan)}, "'ego' of the observation has numbers that are not finite"),
        (np.zeros(32), "the observation is of ndarray; expected a dict of its parts, {'ego': "),
        (None, "the observation is of NoneType; expected a dict"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(runs, observation, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load(runs / "fight").act(observation)


def test_a_scripted_policy_reads_more_than_observations():
    with pytest.raises(ConfigError, match="is scripted and reads the simulator's state"):
        load("scripted:crank")
