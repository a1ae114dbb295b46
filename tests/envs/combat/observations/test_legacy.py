"""The original's two layouts, number by number."""

import math

import pytest
import torch

from navrl.envs.combat.observations.legacy import Dict10, Warp21
from tests.envs.combat.sim.duels import opening, put_missile, shipped_params


def observed(observation, params, state, me):
    (rows,) = observation.rows(params, state, me).values()
    return rows.squeeze(-1).tolist()


def test_warp21_by_hand():
    # One at (1, 2) km, heading (0.6, 0.8), 200 m/s, its missile in the air; the other at (-3, 0.5) km
    # flies west at 300 m/s, its missile is back in the rack from far away.
    params = shipped_params()
    course = math.degrees(math.atan2(0.8, 0.6))
    state = opening(params, [(1e3, 2e3, course, 200.0)], [(-3e3, 500.0, 180.0, 300.0)])
    state = put_missile(state, 1, target=0, at=(9e4, 9e4, 0.0, 900.0))
    in_rack = torch.zeros_like(state.missiles.active)
    state = state._replace(missiles=state.missiles._replace(active=in_rack))
    state = put_missile(state, 0, target=1, at=(1500.0, 2600.0, 90.0, 800.0))
    # x / 5 km, y / 5 km, vx / 400, vy / 400
    one, other = [0.2, 0.4, 0.3, 0.4], [-0.6, 0.1, -0.75, 0.0]
    missile = [0.3, 0.52, 0.0, 2.0]
    heading, other_heading = [0.6, 0.8], [-1.0, 0.0]
    first = [*one, *heading, 1.0, *other, *other_heading, *missile, *other]
    second = [*other, *other_heading, 0.0, *one, *heading, *other, *missile]
    assert observed(Warp21(), params, state, 0) == pytest.approx(first, abs=1e-6)
    assert observed(Warp21(), params, state, 1) == pytest.approx(second, abs=1e-6)


def test_dict10_by_hand_with_a_bearing_of_each_ones_own():
    # 3-4-5 triangle: the second is 5 km from the first in the direction of 53.13 degrees.
    params = shipped_params()
    state = opening(params, [(10e3, 25e3, 45.0, 300.0)], [(13e3, 29e3, 300.0, 200.0)])
    rounds, alive = torch.tensor([[6], [3]], dtype=torch.int32), torch.tensor([[True], [False]])
    state = state._replace(aircraft=state.aircraft._replace(rounds=rounds, alive=alive))
    line = math.degrees(math.atan2(4.0, 3.0))
    first = [0.2, 0.5, 45 / 360, 0.75, 1.0, 1.0, 0.1, (line - 45) / 180, 0.5, 0.0]
    second = [0.26, 0.58, 300 / 360, 0.5, 0.5, 0.0, 0.1, (line + 180 - 300) / 180, 0.75, 1.0]
    assert observed(Dict10(), params, state, 0) == pytest.approx(first, abs=1e-6)
    assert observed(Dict10(), params, state, 1) == pytest.approx(second, abs=1e-6)


def test_the_angles_of_dict10_are_wrapped_all_the_way_round():
    params = shipped_params()
    turn = [float(heading) for heading in range(-180, 181, 3)]
    openings = [
        [(0.0, 0.0, heading, 300.0) for heading in turn],
        [(1e4 * math.cos(2.9), 1e4 * math.sin(2.9), 0.0, 300.0)] * len(turn),
    ]
    rows = Dict10().rows(params, opening(params, *openings), 0)["dict10"]
    wrapped = [(math.degrees(2.9) - heading + 180.0) % 360.0 / 180.0 - 1.0 for heading in turn]
    assert rows[7].tolist() == pytest.approx(wrapped, abs=1e-5)
    assert rows[2].tolist() == pytest.approx([h % 360.0 / 360.0 for h in turn], abs=1e-5)


def test_a_rack_of_more_than_six_counts_as_full():
    for ammunition in (9, None):
        params = shipped_params(ammunition=ammunition)
        state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(8e3, 0.0, 0.0, 300.0)])
        assert observed(Dict10(), params, state, 0)[4] == 1.0


@pytest.mark.parametrize("change", [{"team_size": 2}, {"channels": 2}])
def test_warp21_refuses_what_it_has_no_place_for(change):
    with pytest.raises(ValueError, match=r"observation=warp21 with .* expected 1 and 1; change"):
        Warp21().prepare(shipped_params(**change), "cpu")
    Warp21().prepare(shipped_params(), "cpu")
