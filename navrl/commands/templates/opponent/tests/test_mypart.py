"""Tests of the opponent mypart."""

import navrl


def test_it_fires_at_an_enemy_that_is_near() -> None:
    for within_m, shots in ((0.0, 0), (100_000.0, 8)):
        options = {"opponent": "mypart", "opponent.fire_within_m": within_m}
        env = navrl.make("combat", "plugins=[mylab]", options, num_envs=8)
        env.rollout(1)
        left = env.state.combat.aircraft.rounds[1]
        assert int((env.params.rounds - left).sum()) == shots
