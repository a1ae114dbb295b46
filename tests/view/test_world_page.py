"""The data of a page of any world: what its scripts unpack is what was recorded."""

import itertools

import pytest

from navrl.view.world_page import outcome, world_data
from tests.view.worlds import STEPS, episode, place


def data(**changes):
    return world_data(
        episode(**changes), title="ppo in orbit", subtitle="seed 1", outcome="Success"
    )


def summed(packed):
    """Unpack a list as the page does."""
    return list(itertools.accumulate(itertools.accumulate(packed)))


def test_places_come_back():
    found = data()
    unit = found["unit"]
    assert unit == pytest.approx(1e-4), "eight units across, 20,000 parts or more"
    drone = found["shapes"][4]
    ((track,),) = drone["points"]
    for axis, packed in enumerate(track):
        expected = [place(step)[axis] for step in range(STEPS + 1)]
        assert [unit * whole for whole in summed(packed)] == pytest.approx(expected, abs=unit)
    assert (drone["radius"], drone["colour"]) == ([0.2], [3])
    assert drone["trail"]


def test_what_stands_costs_one_number():
    goal = data()["shapes"][1]
    assert goal["points"] == [[[[0], [0]]]]
    assert (goal["colour"], goal["label"], goal["visible"]) == ("goal", "goal", [1])


def test_what_comes_and_goes_is_written_over_time():
    arrow = data()["shapes"][3]
    assert arrow["visible"] == [[1] * (STEPS // 2) + [0] * (STEPS // 2 + 1)]
    assert data()["shapes"][5]["words"] == ["left", "right"]


def test_observations_are_shown_where_there_is_no_picture():
    assert [curve["name"] for curve in data()["curves"]] == ["reward", "return"]
    bare = data(pictured=False)
    assert [curve["name"] for curve in bare["curves"]] == ["reward", "return", "observation"]
    assert bare["shapes"] == []
    assert bare["curves"][0]["lines"][0][:3] == [None, 0.5, 1]
    assert bare["curves"][2]["leftOut"] == 10


def test_the_outcome_in_words():
    ended = episode(pictured=False)
    assert outcome(ended, "success") == "Success after 40 steps"
    assert outcome(ended, "return") == "Return 410 after 40 steps"
    failed = ended._replace(statistics={"success": 0.0}, ending="cut")
    assert outcome(failed, "success") == "No success in 40 steps (and goes on)"
