"""Tests of the reward term mypart."""

import navrl


def test_it_rewards_speed() -> None:
    env = navrl.make("combat", "plugins=[mylab]", reward="mypart", num_envs=8)
    reward = env.rollout(3)["next", "reward"]  # nobody wins that early
    assert (reward > 0.01 * 100 / 400).all()  # m/s
    assert (reward < 0.01 * 500 / 400).all()
