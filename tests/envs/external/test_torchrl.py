"""env=torchrl: worlds of TorchRL under our keys, single or batched, of one agent or of a group."""

import contextlib
import os
import signal
import sys
import textwrap

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import (
    Binary,
    Categorical,
    Composite,
    OneHot,
    Unbounded,
)
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs
from torchrl.testing.mocking_classes import (
    ContinuousActionConvMockEnv,
    CountingEnvWithString,
    HeterogeneousCountingEnv,
    MultiAgentCountingEnv,
    MultiKeyCountingEnv,
    NestedCountingEnv,
)

from navrl import evaluate, train
from navrl.commands import report
from navrl.config import plugins
from navrl.config.checks import ConfigError
from navrl.envs.external.torchrl import TorchRLEnv
from tests.agents.conftest import built
from tests.command_line import command
from tests.envs.external.test_gym import EXPECTED, LENGTHS, played, rows

HERE = __name__


class Counter(EnvBase):
    """Observes 10 times its episode's number plus its steps; odd episodes terminate, even ones are cut.

    With num_envs None it is a single simulation without an axis.
    """

    def __init__(self, num_envs=None, noise=0.0):
        shape = () if num_envs is None else (num_envs,)
        super().__init__(batch_size=shape)
        flags = Composite(
            terminated=Binary(1, (*shape, 1), dtype=torch.bool),
            truncated=Binary(1, (*shape, 1), dtype=torch.bool),
            done=Binary(1, (*shape, 1), dtype=torch.bool),
            shape=shape,
        )
        self.observation_spec = Composite(features=Unbounded((*shape, 1)), shape=shape)
        self.action_spec = Categorical(2, shape=shape)
        self.reward_spec = Unbounded((*shape, 1))
        self.done_spec, self.noise = flags, noise
        self.episode, self.steps = torch.full((2, *shape, 1), -1.0)
        self.taken = []

    def _reset(self, tensordict=None, **_):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        mask = torch.ones(*self.batch_size, 1, dtype=torch.bool) if mask is None else mask
        self.episode = self.episode + mask
        self.steps = torch.where(mask, 0.0, self.steps)
        return TensorDict({"features": self._seen()}, self.batch_size)

    def _step(self, tensordict):
        self.taken.append(tensordict["action"].clone())
        self.steps = self.steps + 1
        over = self.steps == torch.tensor(LENGTHS)[(self.episode % 3).long()]
        odd = self.episode % 2 == 1
        flags = {"terminated": over & odd, "truncated": over & ~odd, "done": over}
        found = {"features": self._seen(), "reward": self.steps.clone(), **flags}
        return TensorDict(found, self.batch_size)

    def _seen(self):
        return 10 * self.episode + self.steps + self.noise * torch.rand(1)

    def _set_seed(self, seed):
        """There is nothing to seed; torch's own generator makes the noise."""


def single():
    """One simulation without an axis."""
    return Counter()


class Squad(EnvBase):
    """Three agents that choose; agent i is rewarded by its choice plus i, and may not choose 0 after a 2."""

    def __init__(self, num_envs, own_rewards=True, flags=3):
        super().__init__(batch_size=[num_envs])
        shape, group = (num_envs,), (num_envs, 3)
        seen = Composite(
            pair=Unbounded((*group, 2)), action_mask=_flags((*group, flags)), shape=group
        )
        self.observation_spec = Composite(robots=seen, clock=Unbounded((num_envs, 1)), shape=shape)
        act = Composite(act=OneHot(3, (*group, 3)), shape=group)
        self.full_action_spec = Composite(robots=act, shape=shape)
        reward = Composite(reward=Unbounded((*group, 1)), shape=group)
        self.reward_spec = (
            Composite(robots=reward, shape=shape) if own_rewards else Unbounded((num_envs, 1))
        )
        self.own_rewards = own_rewards

    def _reset(self, tensordict=None, **_):
        self.clock = torch.zeros(*self.batch_size, 1)
        return self._frame(torch.zeros(*self.batch_size, 3))

    def _step(self, tensordict):
        action = tensordict["robots", "act"]
        assert action.dtype == self.full_action_spec["robots", "act"].dtype
        assert (action.sum(-1) == 1).all()
        choice = action.long().argmax(-1).float()
        self.clock = self.clock + 1
        frame, reward = self._frame(choice), choice + torch.arange(3.0)
        if self.own_rewards:
            frame["robots", "reward"] = reward.unsqueeze(-1)
        else:
            frame["reward"] = reward.sum(-1, keepdim=True)
        return frame.set("done", self.clock >= 4)

    def _frame(self, choice):
        pair = torch.stack([choice, self.clock.expand_as(choice)], -1)
        mask = torch.ones(*choice.shape, 3, dtype=torch.bool)
        mask[..., 0] = choice != 2
        robots = TensorDict({"pair": pair, "action_mask": mask}, [*self.batch_size, 3])
        return TensorDict({"robots": robots, "clock": self.clock.clone()}, self.batch_size)

    def _set_seed(self, seed):
        """There is nothing to seed."""


def _flags(shape):
    return Binary(shape[-1], shape, dtype=torch.bool)


def nested():
    return NestedCountingEnv(max_steps=3)


def agents():
    return MultiAgentCountingEnv(n_agents=2)


def different():
    return HeterogeneousCountingEnv()


def several():
    return MultiKeyCountingEnv(batch_size=[])


def strings():
    return CountingEnvWithString()


def pixels():
    return ContinuousActionConvMockEnv()


def nothing():
    return 3


def other_size(num_envs):
    return Counter(num_envs + 1)


@pytest.fixture(autouse=True)
def _trusted(monkeypatch):
    monkeypatch.setattr(plugins, "_typed", ["tests"])


def make(name, *, num_envs=2, seed=0, horizon=None, vectorization="sync", bounds=None, **options):
    return TorchRLEnv(
        factory=name if name is None or "." in name else f"{HERE}.{name}",
        options=options,
        vectorization=vectorization,
        action_bounds=bounds,
        name="torchrl",
        headline={},
        objective="return",
        horizon=horizon,
        num_envs=num_envs,
        device="cpu",
        seed=seed,
    )


@pytest.mark.parametrize("name", ["Counter", "single"])
def test_a_step_ends_with_the_true_last_observation(name):
    """Batched by its own parameter num_envs, and copies of a single simulation."""
    assert rows(played(make(name), len(EXPECTED))) == EXPECTED


def test_a_truncated_episode_bootstraps_with_the_value_of_its_last_observation():
    """Discount 0.5, lambda 0, a critic that returns what it sees; the targets are worked out by hand."""
    env = make("single")
    specs = {"observation_spec": env.observation_spec, "action_spec": env.action_spec}
    agent = built("ppo", **specs, device="cpu", num_iterations=1, discount=0.5, gae_lambda=0.0)
    agent.values = lambda frames: frames["observation", "features"].clone()
    batch = agent.advantages(played(env, 10).unsqueeze(0))
    targets = batch["value_target"].flatten().tolist()
    # reward + value of the next observation / 2; at step 3 truncated, 3 + 3/2; at step 8 terminated, 5
    assert targets == [1.5, 3.0, 4.5, 6.5, 8.0, 9.5, 11.0, 5.0, 11.5, 13.0]


def test_a_horizon_cuts_earlier_and_only_what_it_cuts_begins_again():
    frames = played(make("Counter", horizon=2), 5)
    assert frames["next", "truncated"].flatten().tolist() == [False, True, False, True, False]
    assert not frames["next", "terminated"].any()
    assert frames["next", "observation", "features"].flatten().tolist() == [1, 2, 11, 12, 21]


def test_actions_reach_the_world_in_its_own_shape():
    env = make("Counter")
    played(env, 3)
    assert [step.tolist() for step in env._inner.taken] == [[0, 0], [1, 1], [0, 0]]


def test_a_group_becomes_a_team():
    env = make("Squad", num_envs=2)
    check_env_specs(env)
    root = env.reset()
    assert root["agents", "action_mask"].all()
    root["agents", "action"] = torch.tensor([[[2], [1], [0]], [[0], [0], [2]]])
    ahead = env.step_and_maybe_reset(root)[0]["next"]
    assert ahead["agents", "reward"].squeeze(-1).tolist() == [[2, 2, 2], [0, 1, 4]]
    assert ahead["reward"].flatten().tolist() == pytest.approx([2.0, 5 / 3])
    assert ahead["agents", "observation", "pair"][0].tolist() == [[2, 1], [1, 1], [0, 1]]
    assert ahead["agents", "action_mask"][:, :, 0].tolist() == [
        [False, True, True],
        [True, True, False],
    ]
    assert ahead["state"].tolist() == [[1.0], [1.0]]  # what the world observes beside its agents


def test_a_team_may_have_one_reward():
    env = make("Squad", own_rewards=False)
    check_env_specs(env)
    assert ("agents", "reward") not in env.reward_keys


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "torchrl.envs.PendulumEnv",
            {"horizon": 3},
        ),  # of any batch size, with its state in the frame
        (f"{HERE}.nested", {}),
    ],
)
def test_it_keeps_the_specs_that_it_declares(name, options):
    env = make(name, num_envs=3, **options)
    check_env_specs(env)
    assert env.rollout(9, break_when_any_done=False)["next", "done"].any()


def test_its_random_numbers_are_its_own():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, same, other = (make("Counter", seed=seed, noise=1.0) for seed in (5, 5, 6))
    seen = [env.rollout(3)["observation", "features"] for env in (one, same, other)]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    # TorchRL's rollout itself draws the actions.
    torch.random.set_rng_state(before)
    expected = torch.rand(1)
    torch.random.set_rng_state(before)
    one.reset()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: make(None), r"env\.factory = None; expected a class of torchrl\.envs such as"),
        (lambda: make("torchrl.envs.Pendulum"), "did you mean 'PendulumEnv'"),
        (lambda: make("torchrl.envs.GymEnv.close"), r"env\.factory = torchrl\.envs\.GymEnv\.close"),
        (
            lambda: make("torchrl.envs.GymEnv"),
            r"with env\.options = \{\} cannot be made: TypeError",
        ),
        (lambda: make("torchrl.envs.step_mdp"), "expected a class of torchrl.envs"),
        (lambda: make("mylab.worlds.make"), r"add plugins=\[mylab\]"),
        (lambda: make("os.system"), "expected a class of torchrl.envs"),
        (lambda: make("tests.no_such.make"), "there is no such module"),
        (lambda: make("absent"), "expected a class or function that"),
        (lambda: make("nothing"), r"nothing, which returns 3; expected an EnvBase"),
        (lambda: make("other_size"), r"batch_size \[3\]; expected \[2\] or \[\]"),
        (lambda: make("single", wind=1), "unexpected keyword argument 'wind'"),
        (lambda: make("strings"), "the part 'string', NonTensor"),
        (lambda: make("pixels"), "an image of shape"),
        (lambda: make("agents"), "rewards have the shapes"),
        (lambda: make("several"), "expected those of one group"),
        (lambda: make("different"), "expected"),
        (lambda: make("Squad", flags=4), "action_mask has shape .* expected 3 flags"),
        (lambda: make("single", vectorization="both"), r"env\.vectorization = both"),
        (lambda: make("Counter", vectorization="async"), "steps all simulations together"),
        (lambda: make("single", bounds=3), r"env\.action_bounds = 3; expected null, or"),
        (lambda: make("single", bounds=[1, 1]), r"env\.action_bounds = 1; expected .* above 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(made, sentence):
    with pytest.raises(ConfigError, match=sentence):
        made()


PLUGIN = """
    import torch
    from torchrl.data import Bounded, Composite, Unbounded
    from torchrl.envs import EnvBase
    from tensordict import TensorDict


    class Point(EnvBase):
        def __init__(self, num_envs, gain=1.0):
            super().__init__(batch_size=[num_envs])
            self.gain, shape = gain, (num_envs, 1)
            self.observation_spec = Composite(place=Unbounded(shape), shape=(num_envs,))
            self.action_spec = Bounded(-1.0, 1.0, shape)
            self.reward_spec = Unbounded(shape)

        def _reset(self, tensordict=None, **_):
            self.place = torch.rand(*self.batch_size, 1)
            return TensorDict({"place": self.place}, self.batch_size)

        def _step(self, tensordict):
            self.place = self.place + self.gain * tensordict["action"]
            found = {"place": self.place, "reward": -self.place.abs(), "done": self.place > 9}
            return TensorDict(found, self.batch_size)

        def _set_seed(self, seed):
            pass
"""


@pytest.mark.commands
def test_all_commands_take_a_world_of_a_package_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_typed", [])
    (tmp_path / "ownlab").mkdir()
    (tmp_path / "ownlab/__init__.py").write_text(textwrap.dedent(PLUGIN))
    words = ("experiment=debug", "env=torchrl", "env.factory=ownlab.Point", "env.horizon=4")
    words += ("logger=none", "hydra.run.dir=outputs/a")
    trust = "plugins=[ownlab]"
    assert command(train.main, *words) == 2
    assert "add plugins=[ownlab]" in capsys.readouterr().err
    assert "ownlab" not in sys.modules
    assert command(train.main, *words, trust, "+env.options.gain=0.5") == 0
    assert command(report.main, "outputs/a") == 0
    plugins._typed.clear()
    capsys.readouterr()
    assert command(evaluate.main, "checkpoint=outputs/a", "num_episodes=2") == 2
    said = capsys.readouterr().err
    assert "add plugins=[ownlab]" in said
    assert "\n" not in said.rstrip("\n")
    assert command(evaluate.main, "checkpoint=outputs/a", "num_episodes=2", trust) == 0
    assert command(train.main, "resume=outputs/a", "total_frames=640", trust) == 0
    assert "this world cannot save them" in capsys.readouterr().out


@pytest.mark.commands
def test_processes_step_as_copies_do_and_survive_signals_to_the_group():
    env = make("single", num_envs=1, vectorization="async")
    with contextlib.closing(env):
        assert rows(played(env, len(EXPECTED))) == EXPECTED
        processes = env._inner._workers
        for process in processes:
            os.kill(process.pid, signal.SIGINT)
        processes[0].join(0.3)
        assert all(process.is_alive() for process in processes)
    assert not any(process.is_alive() for process in processes)
