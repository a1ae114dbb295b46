"""Views of other aircraft and missiles, against geometry worked out by hand."""

import math

import pytest
import torch

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import (
    angle_rad,
    focal_enemy,
    focal_index,
    incoming_missile,
    look,
    own_missile,
)
from tests.envs.combat.sim.duels import motion_of, opening, put_missile, shipped_params


def pair(observer, other):
    both = motion_of([observer], [other])
    return (Motion(*(field[row] for field in both)) for row in (0, 1))


def seen(observer, other):
    return {name: value.item() for name, value in look(*pair(observer, other))._asdict().items()}


def test_an_enemy_ahead_to_the_left_by_hand():
    # Observer at (1, 2) km flies north at 200 m/s; the other is 3 km west and 4 km north of it and
    # flies east at 300 m/s.  Line of sight (-0.6, 0.8), relative velocity (300, -200).
    view = seen((1000.0, 2000.0, 90.0, 200.0), (-2000.0, 6000.0, 0.0, 300.0))
    assert view["range_m"] == pytest.approx(5000.0)
    assert view["cos_bearing"] == pytest.approx(0.8)
    assert view["sin_bearing"] == pytest.approx(0.6)  # positive: left of the nose
    assert view["cos_aspect"] == pytest.approx(0.0, abs=1e-6)
    assert view["sin_aspect"] == pytest.approx(-1.0)  # its heading is 90 degrees clockwise of ours
    assert view["closing_mps"] == pytest.approx(0.6 * 300.0 + 0.8 * 200.0)
    # (x vy - y vx) / r = (-0.6 * -200 - 0.8 * 300) / 5000
    assert view["line_of_sight_rate_radps"] == pytest.approx(-120.0 / 5000.0)


@pytest.mark.parametrize(
    ("heading", "closing_mps", "time_to_go_s"),
    [(180.0, 500.0, 24.0), (0.0, -100.0, 60.0), (90.0, 200.0, 60.0)],
)
def test_time_to_go_is_range_over_closing_speed_up_to_a_minute(heading, closing_mps, time_to_go_s):
    # 12 km straight ahead of 200 m/s, flying at 300 m/s: 12000 / 500 = 24 s; 12000 / 200 = 60 s
    view = look(*pair((0.0, 0.0, 0.0, 200.0), (12_000.0, 0.0, heading, 300.0)))
    assert view.closing_mps.item() == pytest.approx(closing_mps, abs=1e-3)
    assert view.time_to_go_s.item() == pytest.approx(time_to_go_s, rel=1e-5)


@pytest.fixture
def crossing():
    """Aircraft 0 flies east, aircraft 1 north of it flies west; two channels each."""
    params = shipped_params(channels=2)
    return params, opening(params, [(0.0, 0.0, 0.0, 300.0)], [(0.0, 20e3, 180.0, 300.0)])


def test_the_nearest_of_two_missiles_is_the_one_that_counts(crossing):
    params, state = crossing
    state = put_missile(state, 1, channel=0, target=0, at=(0.0, 9e3, 270.0, 700.0), age_ticks=80)
    state = put_missile(state, 1, channel=1, target=0, at=(-4e3, 0.0, 0.0, 900.0), age_ticks=30)
    threat = incoming_missile(params, state, 0)
    assert threat.active.item()
    assert threat.view.range_m.item() == pytest.approx(4000.0)
    assert threat.view.cos_bearing.item() == pytest.approx(-1.0)  # behind aircraft 0
    assert threat.view.closing_mps.item() == pytest.approx(600.0)
    assert threat.age_s.item() == pytest.approx(3.0)
    assert threat.speed_mps.item() == pytest.approx(900.0)
    # Its own side sees the one that is nearest to the target, from the missile.
    own = own_missile(params, state, 1)
    assert own.view.range_m.item() == pytest.approx(4000.0)
    assert own.view.cos_bearing.item() == pytest.approx(1.0)
    assert not own_missile(params, state, 0).active.item()
    assert not incoming_missile(params, state, 1).active.item()


def test_an_own_missile_counts_while_its_target_lives():
    # 0 fires at 2 with its first channel and at 3 with its second, which is farther from its target.
    params = shipped_params(team_size=2, channels=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 30e3, 0.0, 300.0)]
    blue = [(20e3, 0.0, 180.0, 300.0)], [(40e3, 0.0, 180.0, 300.0)]
    state = opening(params, *red, *blue)
    state = put_missile(state, 0, channel=0, target=2, at=(17e3, 0.0, 0.0, 900.0))
    state = put_missile(state, 0, channel=1, target=3, at=(30e3, 0.0, 0.0, 900.0))
    ranges_m = {}
    for dead in ((), (2,), (2, 3)):
        alive = state.aircraft.alive.clone()
        alive[list(dead)] = False
        own = own_missile(params, state._replace(aircraft=state.aircraft._replace(alive=alive)), 0)
        ranges_m[dead] = own.view.range_m.item() if own.active.item() else None
    assert ranges_m == {(): pytest.approx(3e3), (2,): pytest.approx(10e3), (2, 3): None}


@pytest.mark.parametrize("channel", [0, 1])
def test_an_idle_channel_never_hides_a_flying_missile(crossing, channel):
    params, state = crossing  # the idle channel sits at its carrier, nearer than the missile
    state = put_missile(state, 1, channel=channel, target=0, at=(0.0, 50e3, 270.0, 700.0))
    assert incoming_missile(params, state, 0).active.item()
    assert incoming_missile(params, state, 0).view.range_m.item() == pytest.approx(50e3)
    assert own_missile(params, state, 1).view.range_m.item() == pytest.approx(50e3)


def test_a_missile_at_somebody_else_is_not_incoming():
    params = shipped_params(team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 9e3, 0.0, 300.0)]
    blue = [(9e3, 0.0, 0.0, 300.0)], [(9e4, 0.0, 0.0, 300.0)]
    state = put_missile(opening(params, *red, *blue), 2, target=1, at=(1e3, 0.0, 0.0, 700.0))
    assert not incoming_missile(params, state, 0).active.item()
    assert incoming_missile(params, state, 1).active.item()
    assert own_missile(params, state, 2).view.range_m.item() == pytest.approx(math.hypot(1e3, 9e3))


def test_the_focal_enemy_is_the_nearest_living_one():
    # Four fights with enemies 5, 3 and 7 km ahead: all alive, two of them, only the last, nobody.
    params = shipped_params(team_size=3)
    places = [(0.0, 0.0), (0.0, 900.0), (0.0, -900.0), (5e3, 0.0), (3e3, 0.0), (7e3, 0.0)]
    state = opening(params, *([(x, y, 0.0, 300.0)] * 4 for x, y in places))
    enemies = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]).bool()
    alive = torch.cat([torch.ones(3, 4).bool(), enemies])
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    assert focal_index(params, state, 0).tolist() == [1, 0, 2, 0]
    assert focal_enemy(params, state, 0).x_m.tolist() == [3e3, 5e3, 7e3, 5e3]
    assert (
        focal_index(params, state, 3).tolist() == [0] * 4
    )  # 5 km, and sqrt(5 ** 2 + 0.9 ** 2) twice


def test_it_is_the_angle_of_the_direction_at_any_length():
    angles = [math.pi * step / 720 for step in range(721)]
    for length in (1e-3, 1.0, 4e4):
        cos = torch.tensor([length * math.cos(angle) for angle in angles])
        sin = torch.tensor([length * math.sin(angle) for angle in angles])
        assert angle_rad(cos, sin).tolist() == pytest.approx(angles, abs=5e-7)
        assert torch.equal(angle_rad(cos, -sin), angle_rad(cos, sin))


def test_the_edges():
    cos = torch.tensor([1.0, 0.0, -1.0, -1.0, 1.0, 0.0, 3.0])
    sin = torch.tensor([0.0, 2.0, 0.0, -0.0, -0.0, 0.0, -3.0])
    expected = [0.0, math.pi / 2, math.pi, math.pi, 0.0, 0.0, math.pi / 4]
    assert angle_rad(cos, sin).tolist() == pytest.approx(expected, abs=3e-7)
