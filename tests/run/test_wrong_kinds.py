"""Values of a wrong kind in a fresh configuration end in one sentence that names the key."""

import pytest

from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose


@pytest.mark.parametrize(
    ("words", "part", "sentence"),
    [
        ("agent.network=3", "agent", r"'agent\.network' must be a group of options, but got 3"),
        ("agent.optimizer=1", "agent", r"'agent\.optimizer' must be a group of options"),
        ("env.sim=abc", "env", r"'env\.sim' must be a group of options, but got 'abc'"),
        ("env.observation=3", "env", r"'env\.observation' must be a group of options"),
        ("reward.weights=7", "reward", r"'reward\.weights' must be a mapping, but got 7"),
        ("reward.terms.outcome=3", "reward", r"'reward\.terms\.outcome' must be a group"),
        ("agent=3", "agent", "agent = 3; expected one of hmasd, ippo"),
        ("logger=[1]", "logger", r"logger = \[1\]; expected one of none"),
        ("env=null", "env", "env = null; expected one of alice_and_bob"),
    ],
)
def test_the_key_is_named(words, part, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build(compose("train", [words])[part])
