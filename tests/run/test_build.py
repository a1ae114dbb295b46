"""The builders: rollouts of an older policy only with leave, policies of other versions refused."""

import pytest
from omegaconf import open_dict

from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose
from navrl.run.build import allow_lag
from navrl.run.policies import build_policy


class Learner:
    """An agent that counts calls."""

    calls = 0

    def allow_lag(self):
        self.calls += 1


@pytest.mark.parametrize(("collector", "calls"), [("sync", 0), ("compressed", 0), ("pipelined", 1)])
def test_only_a_collector_that_lags_needs_leave(collector, calls):
    agent = Learner()
    allow_lag(compose("train", [f"collector={collector}"]), agent)
    assert agent.calls == calls


def test_strict_refuses_a_collector_that_lags_and_no_other():
    allow_lag(compose("train", ["collector=stepwise", "strict=true"]), Learner())
    with pytest.raises(ConfigError, match=r"strict = true, and .* use collector=sync"):
        allow_lag(compose("train", ["collector=pipelined", "strict=true"]), Learner())


def test_a_checkpoint_whose_agent_had_other_options_is_one_sentence(compose_cfg):
    config = compose_cfg("compile=off")
    env = build(config.env)(num_envs=1, device="cpu", seed=0)
    with open_dict(config):
        del config.agent.max_kl
    with pytest.raises(ConfigError, match=r"another version of navrl.*'max_kl'"):
        build_policy("old.ckpt", config, {"agent": {"policy": {}}}, env)
