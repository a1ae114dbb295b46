"""`phase3`: engages, drags, weaves, and attacks again."""

import pytest
import torch

from tests.envs.combat.opponents.pictures import (
    DEGREE,
    PARAMS,
    command,
    flown,
    incoming,
    keys,
    picture,
    pilot,
    unarmed,
)


def phase3(**fixed):
    """With thresholds of the tests."""
    middle = {
        "snake_time_to_go_s": 4.0,
        "snake_period_s": 6.0,
        "drag_time_to_go_s": 20.0,
        "fire_range_m": 18e3,
        "fire_cone_rad": 30 * DEGREE,
    }
    return pilot("phase3", **(middle | fixed))


@pytest.mark.parametrize(
    ("time_to_go_s", "rudder"), [(25.0, 0.25), (20.5, 0.25), (19.5, -1.0), (5.0, -1.0)]
)
def test_it_drags_by_the_time_to_go(time_to_go_s, rudder):
    # The missile of 700 m/s comes from 5 degrees left against 300 m/s: 999 m/s of closing speed.
    state = incoming(picture(5.0), 5.0, 999.0 * time_to_go_s)
    assert command(phase3(), state)[0] == pytest.approx(rudder, abs=1e-3)


def test_it_holds_fire_while_it_drags():
    assert not command(phase3(), incoming(picture(5.0, 10e3), 5.0, 9e3))[2]


@pytest.mark.parametrize("period_s", [4.0, 6.0, 8.0])
def test_it_weaves_when_the_missile_is_close(period_s):
    opponent, state = phase3(snake_period_s=period_s), incoming(picture(5.0), 5.0, 2.5e3)
    memory, rudders = opponent.initial(keys(1)), []
    for second in range(17):
        late = state._replace(decision=torch.full_like(state.decision, second))
        found, memory = opponent.act(PARAMS, late, 1, memory)
        rudders.append(found.rudder.item())
    half = int(period_s / 2)
    assert rudders == [1.0 if (second // half) % 2 == 0 else -1.0 for second in range(17)]


def test_it_defeats_a_missile_that_kills_who_does_not_defend():
    # From 25 km, head-on at 300 m/s each; without missiles of their own both could only fly on.
    def survives(name):
        state = unarmed(picture(0.0, 25e3), 1)
        states, _ = flown(pilot(name), state, 75, enemy_fires=(0,))
        assert not states[-1].missiles.active.any()
        return states[-1].aircraft.alive[1].item()

    assert survives("phase3")
    assert not survives("phase2")
