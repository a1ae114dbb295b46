"""A small conf/ and a module with the classes that it names."""

import os
import sys
import types
from typing import NamedTuple

import pytest

TRAIN = """
defaults:
  - env: duel
  - agent: ppo
  - reward: ${env}
  - _self_
  - experiment: null
  - override hydra/job_logging: none
  - override hydra/hydra_logging: none
hydra:
  output_subdir: null
  run: {dir: "outputs/${env.name}-${agent.name}/${now:%Y%m%d-%H%M%S}-${run_id:}"}
  sweep: {dir: "multirun/${now:%Y%m%d-%H%M%S}-${run_id:}", subdir: "${hydra.job.num}"}
  job: {chdir: false}
seed: 0
num_envs: 4
"""
FILES = {
    "train.yaml": TRAIN,
    "evaluate.yaml": "checkpoint: ???\n",
    "env/duel.yaml": """
_target_: navrl.envs.toy.Env
_partial_: true
name: duel
num_envs: ${num_envs}
""",
    "env/race.yaml": "name: race\n",
    "agent/ppo.yaml": """
_target_: navrl.envs.toy.Agent
name: ppo
learning_rate: 3e-4
env: null
""",
    "reward/duel.yaml": "weight: 1.0\n",
    "reward/race.yaml": "weight: 2.0\n",
    "experiment/demo.yaml": "# @package _global_\nseed: 7\n",
}


class Env:
    def __init__(self, *, name: str, num_envs: int, device: str) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs = {num_envs} must be at least 1;\nchange num_envs")
        self.name, self.num_envs, self.device = name, num_envs, device


class Size(NamedTuple):
    width: int
    height: int


class Agent:
    def __init__(self, *, name: str, learning_rate: float, env: object) -> None:
        self.learning_rate, self.env = learning_rate, env


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    """A small conf/ and a module of navrl with the two classes above."""
    module = types.ModuleType("navrl.envs.toy")
    for thing in (Env, Agent):
        setattr(
            module, thing.__name__, type(thing.__name__, (thing,), {"__module__": "navrl.envs.toy"})
        )
    Size.__module__ = module.__name__
    module.Size, module.system, module.modules = Size, os.system, sys.modules
    module.__all__ = ["Agent", "Env", "Size"]
    monkeypatch.setitem(sys.modules, "navrl.envs.toy", module)
    for name, text in FILES.items():
        file = tmp_path / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("NAVRL_CONF", str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path)
    return module
