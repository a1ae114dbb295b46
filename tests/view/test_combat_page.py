"""Packed space-time graphs: what the page unpacks is what was drawn, and a page stays small."""

import itertools
import json
import math

import pytest

from navrl.view.combat_page import MOST_GRAPHS, differenced, packed_graphs
from navrl.view.spacetime import spacetime_graph
from tests.view.fights import brawl, duel


def summed(packed):
    """Unpack a list as the page does."""
    return list(itertools.accumulate(itertools.accumulate(packed)))


def test_differences_of_differences_are_undone_by_two_sums():
    assert differenced([10.0, 13.0, 17.0, 22.0]) == [10, -7, 1, 1]  # 10 | 3 4 5 | 1 1
    walk = [float((37 * n * n) % 1009) for n in range(50)]
    assert summed(differenced(walk)) == walk
    assert summed(differenced([0.4, 1.6])) == [0, 2]


def test_a_packed_graph_is_the_drawn_one():
    params, states, _ = duel()
    state = states[33]  # both have a missile in the air
    packed = packed_graphs(params, [state], [33.0], spacetime_graph)
    assert packed["times"] == [33.0]
    for me in (0, 1):
        drawn, found = spacetime_graph(params, state, 0, me), packed["of"][0][me]
        assert found["enemy"] == drawn["enemy"] == 1 - me
        for name, line in drawn["lines"].items():
            times = packed["tables"][found["lines"][name]["t"]]
            assert times == [pytest.approx(t, abs=0.01) for _, _, t in line]
            for axis, key in enumerate("xy"):
                exact = [point[axis] for point in line]
                assert summed(found["lines"][name][key]) == pytest.approx(exact, abs=0.51)
        assert [m["hits"] for m in found["missiles"]] == [m["hits"] for m in drawn["missiles"]]
        assert found["missiles"]
        for small, missile in zip(found["missiles"], drawn["missiles"], strict=True):
            exact = [x for x, _, t in missile["line"] if t <= 20.0]
            assert summed(small["line"]["x"]) == pytest.approx(exact, abs=0.51)
            assert small["ends"] == (len(exact) == len(missile["line"]))
            assert small["mine"] == (missile["carrier"] == me)
        margins = drawn["margins"]
        assert found["margins"][:2] == [round(margins["left_m"]), round(margins["right_m"])]


def test_the_cone_is_packed_as_radii_around_the_enemy():
    params, states, _ = duel()
    state = states[33]
    packed = packed_graphs(params, [state], [33.0], spacetime_graph)
    drawn, cone = spacetime_graph(params, state, 0, 0), packed["of"][0][0]["cone"]
    motion = state.aircraft.motion
    nose = math.atan2(float(motion.sin_heading[1, 0]), float(motion.cos_heading[1, 0]))
    angles = packed["tables"][cone["angles"]]
    for radii, points, slow, pale in zip(
        cone["r"],
        drawn["cone"]["slices"],
        drawn["no_threat"],
        packed["tables"][cone["n"]],
        strict=True,
    ):
        for radius, angle, point in zip(summed(radii), angles, points, strict=True):
            x = float(motion.x_m[1, 0]) + radius * math.cos(nose + math.radians(angle))
            y = float(motion.y_m[1, 0]) + radius * math.sin(nose + math.radians(angle))
            assert math.hypot(x - point[0], y - point[1]) < 2.0
        assert [bool(flag) for flag in pale] == slow


def test_large_fights_get_a_graph_every_few_decisions():
    params, states, _ = brawl()
    states = (states * 4)[:160]
    drawn = []

    def counted(params, state, env, me):
        drawn.append(me)
        return graph

    graph = spacetime_graph(params, states[0], 0, 0)
    packed = packed_graphs(params, states, [float(i) for i in range(160)], counted)
    assert packed["times"][:3] == [
        0.0,
        3.0,
        6.0,
    ]  # 160 x 8 graphs are allowed 600: every third decision
    assert len(drawn) <= MOST_GRAPHS


def test_the_dead_and_the_unopposed_have_no_graph():
    params, states, _ = duel()
    packed = packed_graphs(params, states[-2:], [0.0, 1.0], spacetime_graph)
    assert all(packed["of"][0])
    assert packed["of"][1] == [None, None]


def test_three_hundred_decisions_make_less_than_three_megabytes():
    params, states, _ = duel()
    some = states[29:39]  # missiles in the air make graphs large
    assert all(bool(state.missiles.active.any()) for state in some)
    packed = packed_graphs(params, some, [float(i) for i in range(10)], spacetime_graph)
    assert len(json.dumps(packed, separators=(",", ":"))) * 30 < 2.5e6
