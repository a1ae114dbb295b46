"""How worlds are dealt to stages, and which stages are refused."""

import pytest

from navrl.envs.navigation.worlds.pool import Difficulty, spread

ROOM = Difficulty(350, 80)


def test_places_are_dealt_in_proportion():
    plan = spread({0: 0.1, 1: 0.1, 2: 0.8}, 64)
    for stage, exactly in enumerate((6.4, 6.4, 51.2)):
        assert abs(plan.count(stage) - exactly) < 1.0
    # and mixed: no part of the plan is of one kind only
    assert set(plan[:12]) == set(plan[-12:]) == {0, 1, 2}


def test_one_stage_gets_everything():
    assert spread({3: 1.0}, 5) == [3] * 5


@pytest.mark.parametrize(
    "wrong", [Difficulty(351, 0), Difficulty(-1, 0), Difficulty(0, 81), Difficulty(1.5, 0)]
)
def test_what_there_is_no_room_for_is_refused_by_name(wrong):
    name = "moving" if wrong.moving else "static"
    with pytest.raises(ValueError, match=rf"here\.{name} = "):
        wrong.checked("here.", ROOM)
