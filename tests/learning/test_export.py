"""Another library learns our air combat."""

import pytest
import torch
from stable_baselines3 import PPO

from navrl.config.compose import compose
from navrl.export.stable_baselines3 import StableBaselinesVecEnv
from navrl.run.build import build_env

pytestmark = pytest.mark.learning


def test_ppo_of_stable_baselines_beats_straight():
    torch.set_num_threads(1)
    cfg = compose("train", ["opponent=straight", "env.sim.time_limit_s=100"])
    worlds = StableBaselinesVecEnv(build_env(cfg, num_envs=64, seed=0))
    options = {"n_steps": 64, "batch_size": 512, "n_epochs": 4, "learning_rate": 1e-3}
    model = PPO("MultiInputPolicy", worlds, ent_coef=0.01, seed=1, device="cpu", **options)
    model.learn(81_920)
    wins = [episode["win"] for episode in model.ep_info_buffer]  # the last hundred
    assert sum(wins) >= 90
