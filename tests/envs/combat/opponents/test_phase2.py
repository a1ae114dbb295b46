"""`phase2`: a long shot, some seconds straight on, flight, return."""

import pytest

from tests.envs.combat.opponents.pictures import (
    DEGREE,
    PARAMS,
    command,
    firing,
    flown,
    incoming,
    keys,
    picture,
    pilot,
    unarmed,
)


def phase2(**fixed):
    """With the thresholds in the middle of the shipped ranges."""
    middle = {
        "fire_range_m": 25e3,
        "fire_cone_rad": 30 * DEGREE,
        "support_s": 3.0,
        "extend_range_m": 35e3,
        "extend_s": 25.0,
    }
    return pilot("phase2", **(middle | fixed))


def rudders(opponent, states):
    """Return its rudder in a sequence of pictures, one a second."""
    memory, found = opponent.initial(keys(1)), []
    for state in states:
        chosen, memory = opponent.act(PARAMS, state, 1, memory)
        found.append(chosen.rudder.item())
    return found


# With the enemy 5 degrees to the left a quarter of the rudder follows it, and full right flees.
NEAR, FAR = picture(5.0, 24e3), picture(5.0, 35.1e3)
FOLLOWS, FLEES = pytest.approx(0.25, abs=1e-4), -1.0


@pytest.mark.parametrize("support_s", [2.0, 3.0, 4.0])
def test_after_the_shot_it_flies_straight_on_and_then_flees(support_s):
    straight = int(support_s)
    found = rudders(phase2(support_s=support_s), [NEAR] + [firing(NEAR)] * 5)
    assert found == [0.0] * straight + [FLEES] * (6 - straight)


@pytest.mark.parametrize("extend_s", [22.0, 25.0])
def test_it_flees_for_its_time(extend_s):
    found = rudders(phase2(extend_s=extend_s), [NEAR] + [firing(NEAR)] * 40)
    back = 3 + int(extend_s)
    assert found[3:back] == [FLEES] * (back - 3)
    assert found[back:] == [FOLLOWS] * (41 - back)


def test_it_comes_back_sooner_when_the_enemy_is_far():
    found = rudders(phase2(), [NEAR] + [firing(NEAR)] * 9 + [firing(FAR)] * 2)
    assert found[3:] == [FLEES] * 7 + [FOLLOWS] * 2


def test_it_fires_again_when_it_is_back():
    opponent = phase2()
    memory, fires = opponent.initial(keys(1)), []
    for state in [NEAR] * 30:  # as if the missile were lost at once
        found, memory = opponent.act(PARAMS, state, 1, memory)
        fires.append(found.fire.item())
    assert [i for i, fire in enumerate(fires) if fire] == [0, 29]


def test_without_missiles_it_goes_on_fleeing():
    found = rudders(phase2(), [NEAR] + [unarmed(NEAR, 1)] * 40)
    assert found[3:] == [FLEES] * 38


def test_it_takes_no_notice_of_missiles():
    state = unarmed(picture(12.0), 1)
    threatened = incoming(state, 12.0, 4e3)
    assert command(phase2(), threatened) == command(phase2(), state)
    states, _ = flown(pilot("phase2"), unarmed(picture(0.0, 22e3), 1), 60, enemy_fires=(0,))
    assert not states[-1].aircraft.alive[1].item()
