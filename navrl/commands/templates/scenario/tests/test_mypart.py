"""Tests of the scenario mypart."""

import navrl
import torch


def test_it_begins_at_the_distance_with_any_heading() -> None:
    env = navrl.make("combat", "plugins=[mylab]", scenario="mypart", num_envs=64)
    env.reset()
    motion = env.state.combat.aircraft.motion
    distance_m = torch.hypot(motion.x_m[1] - motion.x_m[0], motion.y_m[1] - motion.y_m[0])
    assert torch.allclose(distance_m, torch.tensor(20_000.0))
    assert motion.cos_heading.min() < 0.0 < motion.cos_heading.max()
