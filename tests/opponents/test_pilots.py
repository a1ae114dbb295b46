"""Scripted pilots: what they command in pictures drawn by hand, and what comes of it in flight."""

import math

import pytest
import torch

from navrl.opponents.base import steer
from navrl.opponents.crank import Crank
from navrl.opponents.pursuit import Pursuit
from navrl.opponents.straight import Straight
from navrl.sims.combat import advance
from navrl.sims.random import episode_key
from tests.sims.duels import (
    hits_on_fleeing_targets,
    opening,
    options,
    orders,
    put_missile,
    read_yaml,
    shipped_params,
)

CRANK = options(read_yaml("opponent/crank.yaml"))
PARAMS = shipped_params()
FULL_REACH_M = 18609.0 + (10.02 - 14.25) * 300.0  # both at 300 m/s: 17340 m
DEGREE = math.pi / 180.0


def keys(count, episode=0):
    env_ids = torch.arange(count)
    return episode_key(torch.zeros_like(env_ids), env_ids, torch.full_like(env_ids, episode))


def memory(fire_fraction=1.0, crank_angle=50.0, turn_out_s=12.0):
    """What a crank pilot drew."""
    drawn = fire_fraction, crank_angle * DEGREE, turn_out_s
    return tuple(torch.tensor([value]) for value in drawn)


def picture(bearing, range_m=40e3, heading=30.0, enemy_speed=300.0):
    """Aircraft 1 at the origin; aircraft 0 this far off its nose and flying at it."""
    line = (heading + bearing) * DEGREE
    enemy = (
        range_m * math.cos(line),
        range_m * math.sin(line),
        heading + bearing + 180.0,
        enemy_speed,
    )
    return opening(PARAMS, [enemy], [(0.0, 0.0, heading, 300.0)])


def command(pilot, state, remembered=()):
    found, _ = pilot.act(PARAMS, state, 1, remembered)
    return found.rudder.item(), found.throttle.item(), found.fire.item()


def incoming(state, bearing, range_m, speed_mps=700.0, heading=30.0):
    """With a missile of aircraft 0 in the air that flies straight at aircraft 1."""
    line = (heading + bearing) * DEGREE
    at = range_m * math.cos(line), range_m * math.sin(line), heading + bearing + 180.0, speed_mps
    return put_missile(state, 0, target=1, at=at, age_ticks=150)


def flown(pilot, state, remembered, decisions, rudder=0.0):
    """Bearing of aircraft 0 off the nose of aircraft 1 in degrees, decision by decision."""
    bearings, launches = [], []
    for _ in range(decisions):
        found, remembered = pilot.act(PARAMS, state, 1, remembered)
        chosen = orders(
            state,
            rudder=torch.stack([torch.full_like(found.rudder, rudder), found.rudder]),
            fire=torch.stack([torch.zeros_like(found.fire), found.fire]),
        )
        state, events = advance(PARAMS, state, chosen)
        motion = state.aircraft.motion
        x_m, y_m = (motion.x_m[0] - motion.x_m[1]).item(), (motion.y_m[0] - motion.y_m[1]).item()
        heading = math.atan2(motion.sin_heading[1], motion.cos_heading[1])
        bearings.append(math.remainder(math.atan2(y_m, x_m) - heading, 2 * math.pi) / DEGREE)
        launches.append(events.launched[1].item())
    return bearings, launches, state


def test_steering_is_proportional_up_to_twenty_degrees():
    errors = torch.tensor([-179.0, -90.0, -20.0, -5.0, 0.0, 10.0, 20.0, 100.0, 180.0]) * DEGREE
    rudder = steer(errors.cos(), errors.sin().where(errors.abs() < 3.1, 0.0))
    wanted = [-1.0, -1.0, -1.0, -0.25, 0.0, 0.5, 1.0, 1.0, 1.0]
    wanted[0] = 1.0  # sine set to 0: dead astern goes left
    assert rudder.tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("bearing", [0.0, 90.0, -135.0, 180.0])
def test_straight_never_turns_nor_fires(bearing):
    state = incoming(picture(bearing, range_m=4e3), bearing, 2e3)
    assert command(Straight(), state) == (0.0, 1.0, False)


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [
        (0.0, 0.0),
        (2.5, 0.0),  # 0.05 rad = 2.86 degrees
        (-2.5, 0.0),
        (3.2, 1.0),
        (-3.2, -1.0),
        (90.0, 1.0),
        (-170.0, -1.0),
        (179.0, 1.0),  # dead astern: left, whichever side it is on
        (-179.0, 1.0),
        (180.0, 1.0),
    ],
)
def test_pursuit_turns_towards_the_enemy_outside_its_dead_zone(bearing, rudder):
    pursuit = Pursuit(dead_zone_rad=0.05)
    assert command(pursuit, picture(bearing, range_m=5e3)) == (rudder, 1.0, False)


@pytest.mark.parametrize("bearing", [180.0, 120.0, -60.0])
def test_pursuit_ends_up_pointing_at_the_enemy(bearing):
    bearings, launches, _ = flown(Pursuit(dead_zone_rad=0.05), picture(bearing), (), 25)
    # One decision at full rudder turns up to 0.49 rad = 28 degrees, so it may overshoot by that.
    assert all(abs(b) < 28.0 for b in bearings[-10:])
    assert not any(launches)


@pytest.mark.parametrize("fraction", [0.8, 0.9, 1.0])
@pytest.mark.parametrize(
    ("part", "fires"), [(0.3, True), (0.99, True), (1.01, False), (2.0, False)]
)
def test_crank_fires_inside_its_fraction_of_the_no_escape_range(fraction, part, fires):
    state = picture(10.0, range_m=part * fraction * FULL_REACH_M)
    assert command(Crank(**CRANK), state, memory(fraction))[2] is fires


@pytest.mark.parametrize(
    ("bearing", "fires"),
    [(0.0, True), (29.5, True), (-29.5, True), (30.5, False), (-30.5, False), (170.0, False)],
)
def test_crank_fires_inside_its_cone(bearing, fires):
    assert command(Crank(**CRANK), picture(bearing, range_m=10e3), memory())[2] is fires


def test_crank_holds_fire_while_its_missile_flies_and_without_missiles():
    state = picture(0.0, range_m=10e3)
    flying = put_missile(state, 1, target=0, at=(1e3, 1e3, 0.0, 600.0))
    assert not command(Crank(**CRANK), flying, memory())[2]
    empty = state._replace(
        aircraft=state.aircraft._replace(rounds=torch.zeros_like(state.aircraft.rounds))
    )
    assert not command(Crank(**CRANK), empty, memory())[2]


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [(8.0, 0.4), (-8.0, -0.4), (70.0, 1.0), (-70.0, -1.0)],
)
def test_crank_pursues_before_it_has_fired(bearing, rudder):
    assert command(Crank(**CRANK), picture(bearing), memory())[0] == pytest.approx(rudder, abs=1e-4)


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [
        (0.0, -1.0),
        (45.0, -0.25),
        (50.0, 0.0),
        (60.0, 0.5),
        (-45.0, 0.25),
        (-50.0, 0.0),
        (-60.0, -0.5),
    ],
)
def test_crank_steers_for_its_angle_on_the_nearer_side(bearing, rudder):
    flying = put_missile(picture(bearing), 1, target=0, at=(1e3, 1e3, 0.0, 600.0))
    assert command(Crank(**CRANK), flying, memory(crank_angle=50.0))[0] == pytest.approx(
        rudder, abs=1e-4
    )


@pytest.mark.parametrize(("angle", "bearing"), [(45.0, 5.0), (55.0, -5.0), (50.0, 20.0)])
def test_crank_keeps_the_enemy_at_the_edge_while_its_missile_flies(angle, bearing):
    state = picture(bearing, range_m=17e3)
    bearings, launches, state = flown(Crank(**CRANK), state, memory(crank_angle=angle), 11)
    assert launches == [True] + [False] * 10
    assert state.missiles.active[1].all()
    # The line of sight turns by less than 300 / 10000 rad/s = 2 degrees/s, which takes a rudder of
    # 0.1 and thus an error of 2 degrees; the command is up to a second old.
    assert all(abs(abs(b) - angle) < 4.0 for b in bearings[-5:])
    assert len({b > 0 for b in bearings[-6:]}) == 1


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [(90.0, -1.0), (-90.0, 1.0), (30.0, -1.0), (-30.0, 1.0), (170.0, -0.5), (-170.0, 0.5)],
)
def test_crank_turns_its_tail_to_a_close_missile(bearing, rudder):
    # 8 km at 700 m/s and up to 300 m/s of its own: at most 20 s away when it comes from astern.
    state = incoming(picture(60.0), bearing, 8e3)
    found = command(Crank(**CRANK), state, memory(turn_out_s=21.0))[0]
    assert found == pytest.approx(rudder, abs=1e-4)


@pytest.mark.parametrize(("time_to_go_s", "turns_out"), [(11.8, True), (12.2, False)])
def test_crank_turns_out_at_its_drawn_time_to_go(time_to_go_s, turns_out):
    # Missile from ahead at 700 m/s against 300 m/s: 1000 m/s of closing speed.
    state = incoming(picture(5.0), 5.0, 1000.0 * time_to_go_s)
    rudder = command(Crank(**CRANK), state, memory(turn_out_s=12.0))[0]
    closing_loss = 300.0 * (1.0 - math.cos(5.0 * DEGREE))  # 1.1 m/s, far from the edge
    assert closing_loss < 2.0
    assert rudder == pytest.approx(-1.0 if turns_out else 0.25, abs=1e-4)


def test_crank_survives_a_missile_that_kills_who_flies_on():
    def survives(pilot, remembered):
        state = incoming(picture(0.0), 0.0, 11e3, speed_mps=450.0)  # burnt out
        _, _, state = flown(pilot, state, remembered, 60)
        assert not state.missiles.active[0].any()
        return state.aircraft.alive[1].item()

    assert survives(Crank(**CRANK), memory(turn_out_s=12.0))
    assert not survives(Straight(), ())


def test_crank_thresholds_are_drawn_anew_for_every_episode():
    crank = Crank(**CRANK)
    first, again, other = (crank.initial(keys(4000, e)) for e in (0, 0, 1))
    bounds = (0.8, 1.0), (45.0 * DEGREE, 55.0 * DEGREE), (10.0, 14.0)
    for drawn, same, new, (low, high) in zip(first, again, other, bounds, strict=True):
        part = (drawn - low) / (high - low)
        assert part.min() > -1e-3
        assert part.max() < 1.0 + 1e-3
        assert part.mean().item() == pytest.approx(0.5, abs=5.0 / math.sqrt(12.0 * 4000))
        assert part.std().item() == pytest.approx(1.0 / math.sqrt(12.0), rel=0.05)
        assert torch.equal(drawn, same)
        assert (drawn == new).float().mean() < 0.01
    correlation = torch.corrcoef(torch.stack(first)) - torch.eye(3)
    assert correlation.abs().max() < 5.0 / math.sqrt(4000)


def test_the_no_escape_formula_agrees_with_the_simulator_within_two_percent():
    crank = Crank(**CRANK)
    speeds = torch.tensor(
        [[200.0, 200.0], [200.0, 450.0], [300.0, 300.0], [450.0, 200.0], [450.0, 450.0]]
    )
    formula_m = crank.no_escape_range_m(speeds[:, 0], speeds[:, 1])
    by_hand = [18609.0 + 10.02 * own - 14.25 * enemy for own, enemy in speeds.tolist()]
    assert formula_m.tolist() == pytest.approx(by_hand, rel=1e-6)
    parts = [0.90 + 0.005 * step for step in range(41)]  # 0.90 .. 1.10 of the formula
    shots = [
        (part * formula, own, enemy)
        for formula, (own, enemy) in zip(by_hand, speeds.tolist(), strict=True)
        for part in parts
    ]
    hit = hits_on_fleeing_targets(shots).view(len(speeds), len(parts))
    reached = hit.sum(1)
    for row, count in zip(hit, reached.tolist(), strict=True):
        assert row[:count].all(), "hit up to one range, none beyond it"
        assert 0.98 <= parts[count - 1] <= 1.02
