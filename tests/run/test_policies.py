"""Whom a command is about."""

import pytest
from omegaconf import open_dict

from navrl.config.checks import ConfigError
from navrl.config.compose import build
from navrl.run.policies import build_policy


def test_a_checkpoint_whose_agent_had_other_options_is_one_sentence(compose_cfg):
    config = compose_cfg("compile=off")
    env = build(config.env)(num_envs=1, device="cpu", seed=0)
    with open_dict(config):
        del config.agent.max_kl
    with pytest.raises(ConfigError, match=r"another version of navrl.*'max_kl'"):
        build_policy("old.ckpt", config, {"agent": {"policy": {}}}, env)
