"""env=vmas: the keys of our teams over somebody else's simulator, and plain words without it."""

import importlib.util
from types import SimpleNamespace

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from navrl.config.compose import build
from navrl.envs.external.vmas import VmasTeamEnv
from tests.envs.conftest import configuration

installed = pytest.mark.skipif(
    importlib.util.find_spec("vmas") is None, reason="needs pip install 'navrl[interop]'"
)


def make(*overrides, num_envs=3, seed=0):
    return build(configuration("env=vmas", *overrides).env)(
        num_envs=num_envs, device="cpu", seed=seed
    )


@pytest.mark.skipif(importlib.util.find_spec("vmas") is not None, reason="VMAS is installed")
def test_vmas_is_named_where_it_is_missing():
    with pytest.raises(ValueError, match=r"pip install 'navrl\[interop\]'"):
        make()


@installed
def test_it_keeps_the_specs_that_it_declares():
    check_env_specs(make("env.horizon=3"))


@installed
def test_keys_rewards_and_endings():
    env = make("env.horizon=5", "+env.options.n_agents=4")
    frames = env.rollout(12, break_when_any_done=False)
    assert frames["agents", "observation", "features"].shape[:3] == (3, 12, 4)
    assert frames["state"].shape[-1] == 4 * frames["agents", "observation", "features"].shape[-1]
    own = frames["next", "agents", "reward"]
    assert own.shape == (3, 12, 4, 1)
    torch.testing.assert_close(frames["next", "reward"], own.mean(2))
    ends = frames["next"]
    assert torch.equal(ends["done"], ends["terminated"] | ends["truncated"])
    assert ends["done"].sum() >= 6
    lengths = ends["episode"][..., 1][ends["done"].squeeze(-1)]
    assert lengths.max() <= 5.0


@installed
def test_a_seed_fixes_the_episodes_and_training_keeps_its_luck():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, two, other = make(seed=1), make(seed=1), make(seed=2)
    states = [env.reset()["state"] for env in (one, two, other)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert torch.equal(torch.get_rng_state(), before)


@installed
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("env.vmas_scenario=chess", r"env\.vmas_scenario = chess; expected one of"),
        ("env.vmas_scenario=simple_tag", "agents of several kinds"),
        ("env.horizon=0", r"env\.horizon = 0"),
        ("+env.options.n_agents=many", r"balance with env\.options = \{.*\} cannot be made: "),
    ],
)
def test_scenarios_that_do_not_fit_are_refused(override, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(override)


def test_a_failed_step_gives_the_shared_random_numbers_back():
    env = SimpleNamespace(_global_random_state=["training"], _random_state=["evaluation"])
    with pytest.raises(RuntimeError), VmasTeamEnv._own_random_state(env):
        raise RuntimeError
    assert (env._global_random_state, env._random_state) == (["training"], ["evaluation"])
