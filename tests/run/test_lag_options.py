"""Who may learn from rollouts of an older policy: what the options say, before anything is built."""

import pytest

from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose
from navrl.run.options import allow_lag


class Learner:
    """Notes that it was told."""

    told = 0

    def allow_lag(self):
        self.told += 1


def ask(agent, *overrides):
    cfg = compose("train", list(overrides))
    allow_lag(cfg, agent, build(cfg.collector))


@pytest.mark.parametrize(
    ("collector", "told"), [("sync", 0), ("compressed", 0), ("auto", 0), ("pipelined", 1)]
)
def test_only_what_lags_needs_leave(collector, told):
    agent = Learner()
    ask(agent, f"collector={collector}")
    assert agent.told == told


def test_strict_refuses_what_lags_and_nothing_else():
    ask(Learner(), "collector=stepwise", "strict=true")
    with pytest.raises(ConfigError, match=r"strict = true, and .* use collector=sync"):
        ask(Learner(), "collector=pipelined", "strict=true")
