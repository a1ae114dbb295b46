"""Spaces: every shipped one fits its agent, values are read back, wrong YAML is explained."""

import pytest

from navrl.config.checks import ConfigError
from navrl.config.compose import compose, group_options
from navrl.tune.space import Choices, Range, dimension_of, read_space, space_for, widen, words

ENVS = {"hmasd": "alice_and_bob", "ppo": "combat", "ppo_navigation": "navigation"}


@pytest.mark.parametrize("agent", group_options("agent"))
def test_every_agent_has_a_space_around_its_defaults(agent):
    default_env = "navigation" if agent.endswith("navrl") else "coverage"
    training = [f"env={ENVS.get(agent, default_env)}", f"agent={agent}"]
    space = read_space(space_for(agent), training)
    assert len(space.dimensions) >= 5
    for key, dimension in space.dimensions.items():
        value = space.defaults[key]
        if isinstance(dimension, Choices):
            assert value in dimension.values, key
        else:
            assert dimension.low < value < dimension.high, f"{key} leaves no room around {value}"


def test_words_are_read_back_by_hydra():
    params = {
        "agent.optimizer.learning_rate": 0.000123456,
        "agent.max_kl": None,
        "agent.network.hidden_sizes": "[64,64]",
        "agent.num_epochs": 7,
        "agent.network.activation": "tanh",
    }
    agent = compose("train", ["agent=ppo", *words(params)]).agent
    assert agent.optimizer.learning_rate == 0.0001235, "four digits are drawn"
    assert agent.max_kl is None
    assert list(agent.network.hidden_sizes) == [64, 64]
    assert (agent.num_epochs, agent.network.activation) == (7, "tanh")


def test_a_default_outside_widens_its_dimension():
    rate = Range(1e-4, 1e-2, True, None)
    assert widen(rate, 1e-5, "rate") == Range(1e-5, 1e-2, True, None)
    assert widen(rate, 1, "rate") == Range(1e-4, 1.0, True, None)
    assert widen(rate, 1e-3, "rate") == rate
    assert widen(Choices((1, 2)), 5, "k") == Choices((1, 2, 5))
    assert widen(Range(2, 8, False, None), 16, "n").whole
    for value in (None, "auto", True):
        with pytest.raises(ConfigError, match="expected a number"):
            widen(rate, value, "rate")
    with pytest.raises(ConfigError, match="expected a number above 0"):
        widen(rate, 0.0, "rate")


@pytest.mark.parametrize(
    ("key", "written", "sentence"),
    [
        ("agent.k", 3, "agent.k in conf/tune/mine.yaml = 3; expected {low: 1"),
        ("agent.k", {"low": 1}, "expected {low: 1"),
        ("agent.k", {"low": 5, "high": 2}, "high of .* = 2; expected a finite number above 5"),
        ("agent.k", {"low": 0, "high": 2, "log": True}, "low of .* = 0; expected .* above 0"),
        ("agent.k", {"low": 1, "high": 2, "log": "yes"}, "expected true or false"),
        ("agent.k", {"low": 1, "high": 2, "step": 3}, "step of .* of at most 1"),
        ("agent.k", {"choices": [1]}, "expected a list of two values"),
        ("seed", {"low": 1, "high": 2}, "expected an option that changes the training"),
    ],
)
def test_wrong_yaml_is_one_sentence(key, written, sentence):
    with pytest.raises(ConfigError, match=sentence):
        dimension_of(key, written, "mine")


def test_an_option_that_the_training_lacks_is_named():
    with pytest.raises(ConfigError, match=r"agent\.optimizer\.learning_rate, which this training"):
        read_space("ppo", ["env=alice_and_bob", "agent=hmasd"])
