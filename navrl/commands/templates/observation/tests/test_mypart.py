"""Tests of the observation mypart."""

import navrl
import pytest


def test_it_holds_bearing_and_distance_of_the_enemy() -> None:
    options = {"observation": "mypart", "scenario": "standard30"}  # head-on from 30 km
    env = navrl.make("combat", "plugins=[mylab]", options, num_envs=8)
    for row in env.reset()["observation", "mypart"].tolist():
        assert row == pytest.approx([0.0, 1.0, 30_000 / 20_000], abs=1e-5)
