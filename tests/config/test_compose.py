"""Composing conf/, and a configuration as JSON and back."""

import json

import pytest
from omegaconf import OmegaConf

from navrl.config.checks import ConfigError
from navrl.config.compose import compose, conf_dir, from_json, to_json


def test_composes_in_struct_mode_without_hydras_node():
    config = compose("train", ["experiment=demo", "env=race"])
    assert to_json(config)["seed"] == 7
    assert config.reward.weight == 2.0  # the reward follows the env
    assert "hydra" not in config
    assert OmegaConf.is_struct(config)


def test_json_round_trip_keeps_interpolations():
    config = compose("train")
    data = json.loads(json.dumps(to_json(config)))
    assert data["env"]["num_envs"] == "${num_envs}"
    restored = from_json(data)
    restored.num_envs = 9
    assert restored.env.num_envs == 9
    with pytest.raises(AttributeError):
        restored.num_env = 1
    with pytest.raises(ConfigError, match="mapping"):
        from_json([1])


def test_conf_dir_follows_the_variable_and_says_what_it_lacks(tmp_path, monkeypatch, root):
    assert conf_dir() == tmp_path / "conf"
    monkeypatch.setenv("NAVRL_CONF", "/nowhere")
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        conf_dir()
    monkeypatch.delenv("NAVRL_CONF")
    assert conf_dir() == root / "conf"
