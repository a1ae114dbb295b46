"""`crank`: where it shoots, how it flies while its missile flies, and which missiles it survives."""

import itertools

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from tests.envs.combat.opponents.pictures import (
    DEGREE,
    PARAMS,
    command,
    firing,
    incoming,
    keys,
    picture,
    pilot,
    unarmed,
)
from tests.envs.combat.sim.duels import opening, orders, read_yaml

# Head-on at 300 m/s each nobody outruns a missile from 17.3 km: the first test flies it.
NO_ESCAPE_M = 17.3e3


def crank(**fixed):
    """With the thresholds of the tests."""
    middle = {"fire_cone_rad": 30 * DEGREE, "crank_angle_rad": 50 * DEGREE, "fire_fraction": 1.0}
    return pilot("crank", **(middle | fixed))


@pytest.mark.parametrize("fraction", [0.8, 1.0, 1.1])
@pytest.mark.parametrize(("part", "fires"), [(0.3, True), (0.97, True), (1.04, False)])
def test_it_fires_inside_its_fraction_of_the_no_escape_range(fraction, part, fires):
    state = picture(range_m=part * fraction * NO_ESCAPE_M)
    assert command(crank(fire_fraction=fraction), state)[2] is fires


@pytest.mark.parametrize(
    ("bearing", "rudder"), [(8.0, 0.4), (-8.0, -0.4), (70.0, 1.0), (-70.0, -1.0)]
)
def test_it_pursues_before_it_has_fired(bearing, rudder):
    assert command(crank(), picture(bearing))[0] == pytest.approx(rudder, abs=1e-4)


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [(0.0, -1.0), (45.0, -0.25), (50.0, 0.0), (60.0, 0.5), (-45.0, 0.25), (-60.0, -0.5)],
)
def test_it_steers_for_its_angle_on_the_nearer_side(bearing, rudder):
    assert command(crank(), firing(picture(bearing)))[0] == pytest.approx(rudder, abs=1e-4)


@pytest.mark.parametrize(
    ("bearing", "rudder"),
    [(90.0, -1.0), (-90.0, 1.0), (30.0, -1.0), (-30.0, 1.0), (170.0, -0.5), (-170.0, 0.5)],
)
def test_it_turns_its_tail_to_a_missile(bearing, rudder):
    # 9 km at 1000 m/s are 7 s and more: too close to fly on, too far to break.
    state = incoming(picture(60.0), bearing, 9e3, speed_mps=1000.0)
    assert command(crank(), state)[0] == pytest.approx(rudder, abs=1e-3)


@pytest.mark.parametrize(("bearing", "rudder"), [(170.0, 1.0), (-170.0, -1.0), (20.0, 1.0)])
def test_at_the_last_moment_it_breaks_across_the_nose_of_the_missile(bearing, rudder):
    # 1.5 km at 600 to 1200 m/s of closing speed: 1.2 to 2.5 s.
    state = incoming(picture(60.0), bearing, 1.5e3, speed_mps=900.0)
    assert command(crank(break_time_to_go_s=3.0), state)[0] == rudder


@pytest.mark.parametrize("range_m", [26e3, 15e3])
def test_it_takes_no_notice_of_a_missile_that_it_can_outrun(range_m):
    # A burnt-out missile of 500 m/s makes up less than 6 km on somebody who turns about.
    state = incoming(picture(8.0), 8.0, range_m, speed_mps=500.0)
    assert command(crank(), state)[0] == pytest.approx(0.4, abs=1e-4)


def shot_at(opponent, shots, decisions=60):
    """Return the flags of survival for shots of (range m, shooter's speed, speed, bearing of the shooter)."""
    state = opening(
        PARAMS,
        [(0.0, 0.0, 0.0, shooter) for _, shooter, _, _ in shots],
        [(range_m, 0.0, 180.0 - bearing, speed) for range_m, _, speed, bearing in shots],
    )
    state = unarmed(state, 1)
    memory = opponent.initial(keys(len(shots)))
    for number in range(decisions):
        found, memory = opponent.act(PARAMS, state, 1, memory)
        rudder = torch.stack([torch.zeros_like(found.rudder), found.rudder])
        state, _ = advance(PARAMS, state, orders(state, rudder=rudder, fire=[number == 0, False]))
    assert not state.missiles.active.any()
    return state.aircraft.alive[1]


def test_it_survives_shots_from_its_own_firing_range_that_kill_who_flies_on():
    # The no-escape range at other speeds, within 2 %: 10 m more per m/s of the shooter, 14 less per
    # m/s of the prey.
    speeds = list(itertools.product((200.0, 300.0, 450.0), (200.0, 300.0, 450.0)))
    highest = read_yaml("opponent/crank.yaml")["fire_fraction"][1]
    shots = [
        (highest * 1.02 * (18609.0 + 10.02 * shooter - 14.25 * speed), shooter, speed, 0.0)
        for shooter, speed in speeds
    ]
    assert shot_at(pilot("crank"), shots).all()
    assert not shot_at(pilot("straight"), shots).any()


def test_its_break_saves_it_from_shots_that_nobody_outruns():
    ranges_m = [NO_ESCAPE_M] * 3 + [0.85 * NO_ESCAPE_M]
    shots = list(zip(ranges_m, [300.0] * 4, [300.0] * 4, [0.0, 10.0, -20.0, 0.0], strict=True))
    assert shot_at(pilot("crank"), shots).tolist() == [True, True, True, False]
    assert not shot_at(pilot("crank", break_time_to_go_s=0.0), shots).any()
