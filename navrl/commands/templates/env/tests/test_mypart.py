"""Tests of env=mypart."""

import navrl
import torch


def test_the_reward_is_the_way_made_to_zero() -> None:
    env = navrl.make("mypart", "plugins=[mylab]", num_envs=8)
    frames = env.rollout(1)
    before_m, after_m = (frame["observation", "place"].abs() for frame in (frames, frames["next"]))
    assert torch.allclose(frames["next", "reward"], before_m - after_m)


def test_every_episode_ends_in_time() -> None:
    env = navrl.make("mypart", "plugins=[mylab]", {"env.horizon": 5}, num_envs=8)
    frames = env.rollout(5, break_when_any_done=False)
    assert frames["next", "done"].any(dim=1).all()
