"""`crank_seed`: the stages of the original's fighter."""

import pytest
import torch

from navrl.envs.combat.opponents.crank_seed import APPROACH, DEFEND, FIRE
from tests.envs.combat.opponents.pictures import (
    DEGREE,
    PARAMS,
    command,
    keys,
    picture,
    pilot,
)


def crank_seed(**fixed):
    """With the numbers of the original."""
    original = {
        "fire_range_m": 20e3,
        "defend_range_m": 18e3,
        "fire_cone_rad": 30 * DEGREE,
        "fire_pause_s": 10.0,
        "idle_range_m": 5e3,
        "half_throttle_range_m": 15e3,
    }
    return pilot("crank_seed", **(original | fixed))


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [(4.5, 0.1), (-4.5, -0.1), (0.0, 0.0), (5.5, 1.0), (-5.5, -1.0), (170.0, 1.0)],
)
def test_it_approaches_with_little_rudder_within_five_degrees_and_full_beyond(bearing, rudder):
    assert command(crank_seed(), picture(bearing, 40e3))[0] == pytest.approx(rudder, abs=1e-4)


@pytest.mark.parametrize(
    ("range_m", "throttle"),
    [(40e3, 1.0), (19e3, 1.0), (15.1e3, 1.0), (14.9e3, 0.5), (5.1e3, 0.5), (4.9e3, 0.0)],
)
def test_it_turns_away_and_throttles_back_when_it_defends(range_m, throttle):
    rudder, found, _ = command(crank_seed(), picture(60.0, range_m))
    assert found == throttle
    assert rudder == (-1.0 if range_m < 18e3 else 1.0)


def test_its_stages_and_the_pause_between_two_shots():
    opponent = crank_seed()
    memory, fires, stages = opponent.initial(keys(1)), [], []
    near, middle = picture(0.0, 17e3), picture(0.0, 19e3)
    for state in [middle] * 12 + [near] * 2 + [middle] * 3:
        found, memory = opponent.act(PARAMS, state, 1, memory)
        fires.append(found.fire.item())
        stages.append(memory[0].item())
    assert [i for i, fire in enumerate(fires) if fire] == [0, 10]
    wanted = [FIRE] + [APPROACH] * 9 + [FIRE, APPROACH] + [DEFEND] * 2 + [APPROACH] * 3
    assert stages == wanted
    # From defending it approaches for one decision before it may fire.
    rested = memory[0], torch.full((1,), 60.0), *memory[2:]
    _, defending = opponent.act(PARAMS, near, 1, rested)
    first, after = opponent.act(PARAMS, middle, 1, defending)
    second, _ = opponent.act(PARAMS, middle, 1, after)
    assert [first.fire.item(), second.fire.item()] == [False, True]
