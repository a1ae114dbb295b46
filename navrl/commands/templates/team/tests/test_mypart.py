"""Tests of env=mypart."""

import navrl
import torch


def test_the_reward_is_the_way_made_towards_each_other() -> None:
    env = navrl.make("mypart", "plugins=[mylab]", num_envs=8)
    frames = env.rollout(1)
    places = [
        frame["agents", "observation", "places"][..., 0] for frame in (frames, frames["next"])
    ]
    before_m, after_m = (place.amax(-1) - place.amin(-1) for place in places)
    assert torch.allclose(frames["next", "reward"].squeeze(-1), before_m - after_m, atol=1e-6)


def test_every_episode_ends_in_time() -> None:
    env = navrl.make("mypart", "plugins=[mylab]", {"env.horizon": 5}, num_envs=8)
    frames = env.rollout(5, break_when_any_done=False)
    assert frames["next", "done"].any(dim=1).all()
