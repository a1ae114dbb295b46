"""Tests of the planner mypart."""

import navrl


def test_it_flies_and_is_slower_near_obstacles() -> None:
    options = ["plugins=[mylab]", "env=navigation"]
    records = navrl.evaluate("scripted:mypart", *options, num_episodes=4)
    means = {record.metric: record.mean for record in records}
    assert 0.0 < means["speed_mps"] < 2.0
