"""Beginner's mistakes in a world of one's own: each gives one plain sentence when the world is built."""

import re
import warnings

import pytest
import torch
from omegaconf import OmegaConf

from navrl.agents.scripted import RandomPolicy
from navrl.config import plugins
from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.run.build import build_env
from navrl.run.evaluation import measure
from tests.envs.core.mistakes import MISTAKES, VELOCITY, WIRING, configuration


@pytest.fixture
def built(tmp_path, monkeypatch):
    """built(changes, options) -> a function that builds the world after these changes, and its package."""

    def make(changes, options):
        config, lab = configuration(tmp_path, monkeypatch, changes, options)
        return lambda: build_env(config, num_envs=4, seed=0, from_checkpoint=False), lab

    return make


def sentence_of(make):
    """Return the sentence with which building the world ends."""
    with pytest.raises(ConfigError) as refused:
        make()
    found = str(refused.value)
    assert "\n" not in found
    return found


def test_the_world_without_a_mistake_is_built_without_a_word(built, recwarn):
    make, _ = built({}, {})
    env = make()
    env.reset()
    assert env.observation_spec["observation", "place"].shape == (4, 1)
    assert not recwarn.list


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_python_gives_one_sentence(built, mistake):
    changes, sentence = MISTAKES[mistake]
    make, lab = built(changes, {})
    assert sentence.format(lab=lab) in sentence_of(make)


@pytest.mark.parametrize("mistake", WIRING)
def test_a_mistake_in_yaml_gives_one_sentence(built, mistake):
    options, sentence = WIRING[mistake]
    make, lab = built({}, options)
    assert sentence.format(lab=lab) in sentence_of(make)


def test_a_world_without_a_reward_of_its_name_says_which_file_is_missing(tmp_path, monkeypatch):
    folder = tmp_path / "unrewarded" / "conf" / "env"
    folder.mkdir(parents=True)
    (folder / "unpaid.yaml").write_text("name: unpaid\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_typed", [])
    with pytest.raises(ConfigError) as refused:
        compose("train", ["plugins=[unrewarded]", "env=unpaid"])
    assert str(refused.value) == (
        "env=unpaid has no reward of its name; expected conf/reward/unpaid.yaml beside "
        "conf/env/unpaid.yaml; add that file, or choose reward=..."
    )


def test_a_world_that_never_ends_is_refused(built):
    make, lab = built({"def judge": "def verdict"}, {"horizon": None})
    assert sentence_of(make) == (
        "nothing ends an episode of env=reach: no judge(state) and no horizon; expected one of them; set "
        f"env.horizon, or add judge to {lab}.world.Env"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"2.0 * draw - 1.0": "torch.ones_like(draw)"},
            "all episodes of env=reach begin alike: {lab}.world.Env.initial draws nothing from the key; draw "
            "with navrl.envs.core.random.uniform if they should differ",
        ),
        (
            {VELOCITY: VELOCITY + "\n        velocity = action.max().item()"},
            "item() reads a tensor on the host in every step, so that the step does not compile and a GPU "
            "waits; expected operations on tensors, such as torch.where; change {lab}.world.Env.advance, "
            "line 29",
        ),
        (
            {VELOCITY: VELOCITY + "\n        velocity[state.place_m > 9.0] * 2.0"},
            "an index of flags reads a tensor on the host in every step, so that the step does not compile "
            "and a GPU waits; expected operations on tensors, such as torch.where; change "
            "{lab}.world.Env.advance, line 29",
        ),
        (
            {VELOCITY: VELOCITY + "\n        action[..., state.place_m > 9.0] * 2.0"},
            "an index of flags reads a tensor on the host in every step, so that the step does not compile "
            "and a GPU waits; expected operations on tensors, such as torch.where; change "
            "{lab}.world.Env.advance, line 29",
        ),
    ],
)
def test_what_is_odd_but_works_is_a_warning(built, changes, sentence):
    make, lab = built(changes, {})
    with pytest.warns(UserWarning, match=re.escape(sentence.format(lab=lab))):
        make()


def test_an_evaluation_does_not_say_again_what_is_odd(tmp_path, monkeypatch):
    reads = {VELOCITY: VELOCITY + "\n        velocity = velocity * float(action.max())"}
    config, _ = configuration(tmp_path, monkeypatch, reads, {})
    config = OmegaConf.merge(config, {"eval_episodes": 4, "eval_scenario": None})
    with pytest.warns(UserWarning, match="reads a tensor on the host"):
        env = build_env(config, num_envs=4, seed=0, from_checkpoint=False)
    with warnings.catch_warnings(action="error"):
        found = measure(config, RandomPolicy(env=env), {}, seed=1)
    assert 0.0 <= found["eval/success"] <= 1.0


def test_looking_at_a_world_draws_no_random_number(built):
    make, _ = built({}, {})
    before = torch.get_rng_state()
    make()
    assert torch.equal(torch.get_rng_state(), before)
