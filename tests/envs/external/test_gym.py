"""env=gym: episodes of Gymnasium under our keys, in all three ways in which a VectorEnv begins again."""

import contextlib
import json
import os
import signal
from unittest import mock

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torchrl.envs.utils import check_env_specs

from navrl import evaluate, train
from navrl.config.checks import ConfigError
from navrl.envs.external.gym import GymEnv
from navrl.envs.external.spaces import actions_of, observation_leaves
from tests.agents.conftest import built
from tests.command_line import command

LENGTHS = (3, 5, 2)  # episode k lasts LENGTHS[k % 3] steps


class Counter(gymnasium.Env):
    """Observes 10 times its episode's number plus its steps; odd episodes terminate, even ones are cut."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self):
        self.episode, self.taken = -1, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action):
        self.taken.append(int(action))
        self.steps += 1
        over = self.steps == LENGTHS[self.episode % 3]
        odd = bool(self.episode % 2)
        return self._seen(), float(self.steps), over and odd, over and not odd, {}

    def _seen(self):
        return np.array([10 * self.episode + self.steps], np.float32)


def counters(mode):
    """A function of num_envs, as env.worlds is."""
    return lambda num_envs: SyncVectorEnv([Counter] * num_envs, autoreset_mode=mode)


def make(
    id=None, *, num_envs=2, seed=0, worlds=None, horizon=None, vectorization="auto", **options
):
    return GymEnv(
        id=id,
        worlds=worlds,
        options=options,
        vectorization=vectorization,
        name="gym",
        headline={},
        objective="return",
        horizon=horizon,
        num_envs=num_envs,
        device="cpu",
        seed=seed,
    )


def played(env, steps):
    """The frames of a rollout along the path that a collector takes, (steps,) for the first simulation."""
    frames, root = [], env.reset()
    for step in range(steps):
        action = torch.full((env.batch_size[0], 1), step % 2)
        stepped, root = env.step_and_maybe_reset(root.set("action", action))
        frames.append(stepped[0].clone())
    return torch.stack(frames)


EXPECTED = [  # observed, next observed, reward, terminated, truncated, return so far
    (0, 1, 1, 0, 0, 1),
    (1, 2, 2, 0, 0, 3),
    (2, 3, 3, 0, 1, 6),
    (10, 11, 1, 0, 0, 1),
    (11, 12, 2, 0, 0, 3),
    (12, 13, 3, 0, 0, 6),
    (13, 14, 4, 0, 0, 10),
    (14, 15, 5, 1, 0, 15),
    (20, 21, 1, 0, 0, 1),
    (21, 22, 2, 0, 1, 3),
    (30, 31, 1, 0, 0, 1),
]


def rows(frames):
    ahead = frames["next"]
    columns = (
        *(frames["observation", "features"], ahead["observation", "features"], ahead["reward"]),
        *(ahead["terminated"].int(), ahead["truncated"].int(), ahead["episode"][..., :1]),
    )
    return [tuple(map(int, row)) for row in torch.cat(columns, -1).tolist()]


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP])
def test_a_step_ends_with_the_true_last_observation(mode):
    frames = played(make(worlds=counters(mode)), len(EXPECTED))
    assert rows(frames) == EXPECTED
    assert "alive" not in frames


def test_a_step_that_only_begins_an_episode_is_marked_and_counts_for_nothing():
    frames = played(make(worlds=counters(AutoresetMode.NEXT_STEP)), len(EXPECTED) + 3)
    counted = frames["alive"].squeeze(-1)
    assert counted.tolist() == [True] * 3 + [False] + [True] * 5 + [False] + [True] * 2 + [
        False,
        True,
    ]
    assert rows(frames[counted]) == EXPECTED
    wasted = frames[~counted]["next"]
    assert wasted["reward"].sum() == 0.0
    assert not wasted["done"].any()
    assert wasted["episode"].sum() == 0.0
    assert wasted["alive"].all()


def test_actions_reach_the_world_in_its_own_numbers():
    env = make(worlds=counters(AutoresetMode.DISABLED))
    played(env, 4)
    assert env._worlds.envs[0].taken == [5, 6, 5, 6]


def test_a_truncated_episode_bootstraps_with_the_value_of_its_last_observation():
    """Discount 0.5, lambda 0, a critic that returns what it sees; the targets are worked out by hand."""
    env = make(worlds=counters(AutoresetMode.DISABLED))
    specs = {"observation_spec": env.observation_spec, "action_spec": env.action_spec}
    agent = built("ppo", **specs, device="cpu", num_iterations=1, discount=0.5, gae_lambda=0.0)
    agent.values = lambda frames: frames["observation", "features"].clone()
    batch = agent.advantages(played(env, 10).unsqueeze(0))
    targets = batch["value_target"].flatten().tolist()
    # reward + value of the next observation / 2; at step 3 truncated, 3 + 3/2; at step 8 terminated, 5
    assert targets == [1.5, 3.0, 4.5, 6.5, 8.0, 9.5, 11.0, 5.0, 11.5, 13.0]


@pytest.mark.parametrize(("id", "horizon"), [("CartPole-v1", None), ("Pendulum-v1", 4)])
def test_it_keeps_the_specs_that_it_declares(id, horizon):
    check_env_specs(make(id, num_envs=3, horizon=horizon))  # native, and sync


def test_the_same_seed_plays_the_same_episodes_in_any_batch():
    def first(seed, num_envs):
        return make("Pendulum-v1", num_envs=num_envs, seed=seed).reset()["observation", "features"]

    assert torch.equal(first(3, 2), first(3, 5)[:2])
    assert not torch.isclose(first(3, 2), first(4, 2)).any()


def test_pole_balancing_is_that_of_gymnasium():
    env = make("Pendulum-v1", num_envs=1)
    seen = env.reset()["observation", "features"][0].numpy()
    own = gymnasium.make("Pendulum-v1").unwrapped
    own.reset()
    own.state = np.array([np.arctan2(seen[1], seen[0]), seen[2]])
    for torque in (-2.0, 0.5, 2.0, 1.0):
        action = env.full_action_spec.zero().set("action", torch.full((1, 1), torque))
        frame = env.step(action)["next"]
        expected, reward, *_ = own.step(np.array([torque], np.float32))
        np.testing.assert_allclose(frame["observation", "features"][0], expected, atol=1e-6)
        assert frame["reward"].item() == pytest.approx(reward, abs=1e-5)


def test_spaces_become_vectors_with_names():
    space = spaces.Dict(
        {
            "scan": spaces.Box(0, 1, (2, 3)),
            "gear": spaces.Discrete(3, start=-1),
            "more": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
        }
    )
    batch = {
        "scan": np.arange(12).reshape(2, 2, 3),
        "gear": np.array([-1, 1]),
        "more": (np.array([[0, 1], [1, 1]]), np.array([[1, 2], [0, 0]])),
    }
    found = {
        leaf.name: leaf.vectors(leaf.part(batch)).tolist() for leaf in observation_leaves(space)
    }
    assert found == {
        "scan": [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]],
        "gear": [[1, 0, 0], [0, 0, 1]],
        "more_0": [[1, 0, 0, 1], [0, 1, 0, 1]],
        "more_1": [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]],
    }


def test_actions_become_those_of_the_world():
    several = actions_of(spaces.MultiDiscrete([2, 3], start=[4, 0]), (2,), "cpu")
    assert several.to_world(torch.tensor([[0, 2], [1, 0]])).tolist() == [[4, 2], [5, 0]]
    box = actions_of(spaces.Box(np.array([[-1.0], [0.0]]), np.array([[1.0], [3.0]])), (4,), "cpu")
    assert box.spec.high[0].tolist() == [1.0, 3.0]
    assert box.to_world(torch.zeros(4, 2)).shape == (4, 2, 1)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: make("CartPole-v9"), r"env\.id = CartPole-v9; expected an id of Gymnasium"),
        (lambda: make("CartPol-v1"), "did you mean 'CartPole-v1'"),
        (lambda: make("this:Zen-v0"), r"env\.id = this:Zen-v0; expected an id without a module"),
        (make, r"env\.id = None; expected an id of Gymnasium such as CartPole-v1, or"),
        (lambda: make("Pendulum-v1", horizon=0), r"env\.horizon = 0"),
        (lambda: make("CartPole-v1", horizon=9), r"env\.horizon = 9; expected null, since"),
        (lambda: observation_leaves(spaces.Text(3)), "has the part Text"),
        (lambda: actions_of(spaces.Box(-np.inf, 1.0, (2,)), (1,), "cpu"), "finite bounds"),
        (
            lambda: observation_leaves(
                spaces.Dict({"a b": Counter.observation_space, "a_b": Counter.observation_space})
            ),
            "a name of its own",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(made, sentence):
    with pytest.raises(ConfigError, match=sentence):
        made()


def test_a_run_goes_on_with_new_episodes_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = ("experiment=debug", "env=gym", "env.id=CartPole-v1", "logger=none", "eval_episodes=2")
    assert command(train.main, *first, "total_frames=128", "hydra.run.dir=outputs/a") == 0
    assert command(train.main, "resume=outputs/a", "total_frames=256") == 0
    assert "(this world cannot save them): every env begins a new one" in capsys.readouterr().out
    rows = (tmp_path / "outputs/a/metrics.jsonl").read_text().splitlines()
    frames = [json.loads(row)["frames"] for row in rows]
    assert frames == [128, 256]


def test_every_simulation_that_a_command_makes_is_closed(tmp_path, monkeypatch):
    made = []
    make_vec = gymnasium.make_vec

    def kept(*args, **options):
        made.append(make_vec(*args, **options))
        return made[-1]

    monkeypatch.setattr(gymnasium, "make_vec", kept)
    monkeypatch.chdir(tmp_path)
    first = (
        "experiment=debug",
        "env=gym",
        "env.id=FrozenLake-v1",
        "logger=none",
        "eval_episodes=2",
    )
    assert command(train.main, *first, "total_frames=128", "eval_every=1") == 0
    assert command(evaluate.main, "checkpoint=latest", "num_episodes=2") == 0
    assert len(made) >= 4  # of the training, its evaluation, the final one, and the second command
    assert all(worlds.closed for worlds in made)


def test_a_training_that_cannot_begin_closes_its_simulations(tmp_path, monkeypatch):
    close = mock.Mock()
    monkeypatch.setattr(GymEnv, "close", close)
    monkeypatch.setattr(train, "open_records", mock.Mock(side_effect=OSError("full")))
    monkeypatch.chdir(tmp_path)
    words = ("experiment=debug", "env=gym", "env.id=FrozenLake-v1", "logger=none")
    assert command(train.main, *words) != 0
    assert close.call_count == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_leaves_the_processes_of_the_simulations_alive(number):
    env = make("FrozenLake-v1", num_envs=1, vectorization="async")
    with contextlib.closing(env):
        env.reset()
        (process,) = env._worlds.processes
        os.kill(process.pid, number)
        process.join(0.5)
        assert process.is_alive()
        env.rollout(3)
    assert process.exitcode == 0
