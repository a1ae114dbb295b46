"""The graph data: plain, complete, in world coordinates, and true of the fight that follows."""

import json
import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.reach import ANGLES, SPEEDS, reach_table
from navrl.envs.combat.sim.spacetime import best_escape
from navrl.view.spacetime import nearest_enemy, spacetime_graph
from tests.envs.combat.sim.duels import (
    env_rows,
    motion_of,
    opening,
    orders,
    play,
    put_missile,
    shipped_params,
)

PARAMS = shipped_params()
NORTH = [(0.0, 0.0, 0.0, 300.0)], [(3e3, 20e3, 260.0, 300.0)]


@pytest.fixture(scope="module")
def graph():
    """The graph of the second of two fights: the enemy at (3, 20) km points at 260 degrees."""
    state = opening(
        PARAMS, [(1.0, 2.0, 3.0, 250.0), NORTH[0][0]], [(4e4, 5.0, 6.0, 250.0), NORTH[1][0]]
    )
    return spacetime_graph(PARAMS, state, 1, 0)


def test_it_is_plain_data(graph):
    assert json.loads(json.dumps(graph)) == graph
    assert set(graph) == {
        *("me", "enemy", "lines", "cone", "no_threat", "missiles", "margins", "attack")
    }
    assert (graph["me"], graph["enemy"], graph["missiles"]) == (0, 1, [])
    whole = {"left_m", "right_m", "current_m", "critical_s"}
    assert set(graph["margins"]) == set(graph["attack"]) == whole


def test_lines_begin_at_me_and_turn_to_their_sides(graph):
    lines = graph["lines"]
    assert set(lines) == {"left", "right", "current"}
    for line in lines.values():
        assert [t for _, _, t in line] == list(range(21))
        assert line[0] == [0, 0, 0]
    assert lines["left"][4][1] > 500
    assert lines["right"][4][1] < -500
    assert {y for _, y, _ in lines["current"]} == {0}
    # 300 m/s at 14.7 - 6.125e-5 * 300^2 = 9.19 m/s^2: 309 m after a second, rounded after the next term
    assert lines["current"][1][0] in (304, 305)
    # Away from (3, 20) km is the direction of (-3, -20).
    (x0, y0, _), (x1, y1, _) = lines["right"][-2:]
    assert math.atan2(y1 - y0, x1 - x0) == pytest.approx(math.atan2(-20.0, -3.0), abs=0.01)


def test_the_cone_is_the_reach_of_the_enemy_around_its_nose(graph):
    cone, slow = graph["cone"], graph["no_threat"]
    assert cone["times"] == [2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0]
    assert cone["angles_deg"] == list(range(-180, 181, 10))
    table = reach_table(PARAMS)
    reach_m = table.distance_m.view(-1, SPEEDS, ANGLES)[:, 5]  # 300 m/s
    speed_mps = table.speed_mps.view(-1, SPEEDS, ANGLES)[:, 5]
    for row, points in enumerate(cone["slices"]):
        for angle_deg, (x, y), pale in zip(cone["angles_deg"], points, slow[row], strict=True):
            node = abs(angle_deg) // 10
            direction = math.radians(260.0 + angle_deg)
            expected = reach_m[row, node].item()
            assert x == pytest.approx(3e3 + expected * math.cos(direction), abs=1.0)
            assert y == pytest.approx(20e3 + expected * math.sin(direction), abs=1.0)
            assert pale == (speed_mps[row, node].item() < 340.0)
    assert not slow[7][18], "after 20 s it does 713 m/s ahead"
    assert slow[0][0], "nothing is behind after 2.5 s"


def test_margins_are_those_of_the_simulator_side(graph):
    hunter, prey = (motion_of([pose]) for pose in (NORTH[1][0], NORTH[0][0]))
    hunter, prey = (type(m)(*(field[0] for field in m)) for m in (hunter, prey))
    mine = best_escape(PARAMS, reach_table(PARAMS), hunter, prey)
    his = best_escape(PARAMS, reach_table(PARAMS), prey, hunter)
    for name, escape in (("margins", mine), ("attack", his)):
        best_m = max(graph[name]["left_m"], graph[name]["right_m"])
        assert best_m == pytest.approx(escape.margin_m.item(), abs=60.0)
    assert graph["margins"]["right_m"] > graph["margins"]["left_m"]
    assert graph["margins"]["critical_s"] in [2.5 * step for step in range(1, 25)]


def test_a_predicted_hit_is_the_hit_that_follows():
    start = opening(PARAMS, [(0.0, 0.0, 0.0, 300.0)], [(14e3, 2e3, 180.0, 320.0)])
    states, _ = play(PARAMS, start, 3, first={"fire": [False, True]}, rudder=[0.3, 0.0])
    state = states[-1]
    (missile,) = spacetime_graph(PARAMS, state, 0, 0)["missiles"]
    assert (missile["carrier"], missile["target"]) == (1, 0)
    assert missile["hits"] is True
    assert missile["miss_m"] < 100
    seconds, alive = 0, True
    while alive and seconds < 40:
        state, _ = advance(PARAMS, state, orders(state, rudder=[0.3, 0.0]))
        seconds, alive = seconds + 1, state.aircraft.alive[0, 0].item()
    assert seconds - 1.3 < missile["time_s"] < seconds + 0.3  # the hit is 100 m before the closest
    line = missile["line"]
    assert line[0][2] == 0.0
    assert line[0][:2] == [round(field[1, 0, 0].item()) for field in states[-1].missiles.motion[:2]]
    assert [t for _, _, t in line] == sorted(t for _, _, t in line)
    assert line[-1][2] <= missile["time_s"]
    end = states[-1].aircraft.motion
    ran_m = math.hypot(line[-1][0] - end.x_m[0, 0].item(), line[-1][1] - end.y_m[0, 0].item())
    assert ran_m < 450.0 * seconds, "it ends where the target has gone"


def test_a_missile_that_is_outrun_misses_and_pales():
    state = opening(PARAMS, [(0.0, 0.0, 0.0, 450.0)], [(-60e3, 0.0, 0.0, 300.0)])
    state = put_missile(state, 1, target=0, at=(-9e3, 0.0, 0.0, 600.0), age_ticks=150)
    (missile,) = spacetime_graph(PARAMS, state, 0, 0)["missiles"]
    assert missile["hits"] is False
    # 1 / v grows by 6.125e-5 per second: 600 m/s drop to the target's 470 m/s in 7.5 s, to 340 in 20.8 s.
    assert 6.0 < missile["time_s"] < 9.0
    assert missile["line"][-1][2] <= missile["time_s"]
    assert missile["no_threat_from"] is None, "the line ends before"
    slow = put_missile(state, 1, target=0, at=(-9e3, 0.0, 0.0, 345.0), age_ticks=150)
    closing = slow._replace(
        aircraft=slow.aircraft._replace(
            motion=motion_of([(0.0, 0.0, 180.0, 300.0)], [(-60e3, 0.0, 0.0, 300.0)])
        )
    )
    (missile,) = spacetime_graph(PARAMS, closing, 0, 0)["missiles"]
    # 345 m/s lose 7.3 m/s every second: below 340 after 0.7 s.
    first = missile["line"][missile["no_threat_from"]][2]
    assert 0.6 < first < 1.3


def test_only_missiles_at_me_are_drawn():
    params = shipped_params(team_size=2, channels=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 5e3, 0.0, 300.0)]
    blue = [(20e3, 0.0, 180.0, 300.0)], [(20e3, 5e3, 180.0, 300.0)]
    state = opening(params, *red, *blue)
    at = (12e3, 0.0, 180.0, 900.0)
    state = put_missile(state, 2, target=0, at=at, age_ticks=90)
    state = put_missile(state, 3, channel=1, target=0, at=at, age_ticks=90)
    state = put_missile(state, 3, channel=0, target=1, at=at, age_ticks=90)
    drawn = [spacetime_graph(params, state, 0, me)["missiles"] for me in range(4)]
    assert [[m["carrier"] for m in found] for found in drawn] == [[2, 3], [3], [], []]
    assert {m["target"] for found in drawn for m in found} == {0, 1}


def test_the_enemy_is_the_nearest_that_lives():
    params = shipped_params(team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)] * 3, [(0.0, 5e3, 0.0, 300.0)] * 3
    blue = [(20e3, 0.0, 180.0, 300.0)] * 3, [(30e3, 0.0, 180.0, 300.0)] * 3
    state = opening(params, *red, *blue)
    alive = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 0], [1, 1, 0]]).bool()
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    assert [nearest_enemy(params, state, env, 0) for env in range(3)] == [2, 3, 2]
    assert spacetime_graph(params, env_rows(state, [1]), 0, 0)["enemy"] == 3
