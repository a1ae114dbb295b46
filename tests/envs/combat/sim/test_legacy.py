"""model=legacy against the original's rules, and the known numbers of its defects."""

import math

import pytest
import torch

from navrl.envs.combat.sim import legacy
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import decided
from tests.envs.combat.sim.duels import (
    env_rows,
    motion_of,
    opening,
    orders,
    put_missile,
    shipped_params,
)
from tests.envs.combat.sim.fights import IMAGES, Draws, assert_same_bits, drawn_fights
from tests.envs.combat.sim.scalar_legacy import LegacyFight, Vehicle
from tests.envs.combat.sim.test_reference import random_opening, random_orders

FIGHTS, DECISIONS, BOX_M = 16, 50, 16e3
NAMES = ("launched", "hit", "killed", "missed", "defeated")


def doubled(state):
    """The state with places and speeds in float64."""
    vehicles = state.aircraft, state.missiles
    aircraft, missiles = (
        part._replace(motion=Motion(*(field.double() for field in part.motion)))
        for part in vehicles
    )
    return state._replace(aircraft=aircraft, missiles=missiles)


def scalar_fight(params, state, index):
    columns = zip(*(field[:, index].tolist() for field in state.aircraft.motion), strict=True)
    return LegacyFight(params, [Vehicle(x, y, v * cos, v * sin) for x, y, cos, sin, v in columns])


def assert_same_places(fight, state, index, close_m):
    for vehicle, x, y in zip(
        fight.aircraft,
        state.aircraft.motion.x_m[:, index].tolist(),
        state.aircraft.motion.y_m[:, index].tolist(),
        strict=True,
    ):
        assert math.hypot(x - vehicle.x, y - vehicle.y) < close_m
    flying = env_rows(state.missiles, index)
    for carrier in range(len(fight.alive)):
        expected = fight.in_the_air(carrier)
        assert flying.active[carrier].tolist() == [bool(expected)]
        for shot in expected:
            x, y, _, _, v = (field[carrier, 0].item() for field in flying.motion)
            assert flying.age_ticks[carrier, 0].item() == shot.age
            assert math.hypot(x - shot.vehicle.x, y - shot.vehicle.y) < close_m
            assert v == pytest.approx(shot.vehicle.v, rel=1e-5)


@pytest.mark.parametrize("tick_s", [0.1, 1 / 60])
def test_duels_equal_the_scalar_reference(tick_s):
    # In float64, because a missile that swings between full left and full right doubles an error of
    # rounding again and again: in float32 it is 100 m after a minute.
    params = shipped_params(model="legacy", tick_s=tick_s)
    generator = torch.Generator().manual_seed(5)
    first = state = doubled(env_rows(random_opening(params, BOX_M, generator), range(FIGHTS)))
    fights = [scalar_fight(params, first, index) for index in range(FIGHTS)]
    seen = dict.fromkeys(NAMES, 0)
    for _ in range(DECISIONS):
        order = random_orders(state, generator)
        state, happened = advance(params, state, order)
        for index, fight in enumerate(fights):
            expected = fight.advance(*(field[:, index].tolist() for field in order[:3]))
            for name, craft in expected.items():
                flags = getattr(happened, name)[:, index].tolist()
                assert {i for i, flag in enumerate(flags) if flag} == craft
                seen[name] += len(craft)
            assert_same_places(fight, state, index, close_m=0.05)
            assert decided(params, state)[index].item() == fight.over()
    assert min(fight.tightest_m for fight in fights) > 1e-4, "a shot is too close to call"
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize(
    ("before_deg", "now_deg", "rudder"),
    # One degree a second is 200 / 180 of full rudder, so 0.02 degrees in 0.1 s are 0.2222.
    [
        (179.99, -179.99, 0.2222),
        (-179.99, 179.99, -0.2222),
        (10.0, 10.02, 0.2222),
        (-170.0, 170.0, -1.0),
    ],
)
def test_a_line_of_sight_through_half_a_turn_gives_no_kick(before_deg, now_deg, rudder):
    now = math.radians(now_deg)
    missile = motion_of([(0.0, 0.0, 180.0, 800.0)])
    target = motion_of([(9e3 * math.cos(now), 9e3 * math.sin(now), 0.0, 300.0)])
    before_rad = torch.tensor([[math.radians(before_deg)]])
    found, (remembered,) = legacy.guidance(missile, target, before_rad, 0.1)
    assert found.item() == pytest.approx(rudder, abs=2e-3)
    assert remembered.item() == pytest.approx(now, abs=1e-6)


@pytest.mark.parametrize(("model", "hit"), [("legacy", False), ("exact", True)])
def test_a_fast_pass_through_the_centre_is_missed(model, hit):
    # Both at the speed where thrust and drag are equal, 400 sqrt(15) = 1549.19 and 400 sqrt(1.5) =
    # 489.90 m/s: 203.909 m nearer in a tick, so 101.95 m before and 101.95 m behind it.
    params = shipped_params(model=model, decision_s=0.1, tick_s=0.1)
    state = opening(params, [(-9e3, 0.0, 0.0, 300.0)], [(101.9545, 0.0, 180.0, 489.898)])
    state = put_missile(state, 0, target=1, at=(0.0, 0.0, 0.0, 1549.193), age_ticks=50)
    after, events = advance(params, state, orders(state))
    assert events.killed[:, 0].tolist() == [False, hit]
    gap_m = after.aircraft.motion.x_m[1] - after.missiles.motion.x_m[0, 0]
    assert gap_m.item() == pytest.approx(-101.9545, abs=0.01)


@pytest.mark.parametrize(("model", "flies"), [("legacy", False), ("exact", True)])
def test_a_slow_launch_destroys_the_missile(model, flies):
    # 180 m/s and one tick of (147 - 6.125e-5 * 180^2) m/s^2 * 0.1 s: 194.5 m/s, below its limit of 200.
    params = shipped_params(model=model)
    state = opening(params, [(0.0, 0.0, 0.0, 180.0)], [(9e4, 0.0, 180.0, 300.0)])
    after, events = advance(params, state, orders(state, fire=[True, False]))
    assert after.missiles.active[:, 0, 0].tolist() == [flies, False]
    assert events.missed[:, 0].tolist() == [not flies, False]
    assert events.defeated[:, 0].tolist() == [False, not flies]
    if not flies:
        assert after.missiles.motion.speed_mps[0, 0].item() == pytest.approx(194.5, abs=0.01)


def test_a_limit_of_load_is_refused_because_the_original_has_none():
    fighter = shipped_params().fighter._replace(max_load_g=9.0)
    with pytest.raises(ValueError, match=r"max_load_g = 9.0; expected null .*model=legacy"):
        shipped_params(model="legacy", fighter=fighter)


def test_images_fly_alike_to_the_bit_and_are_guided_alike_within_the_rounding_of_angles():
    """An angle near pi is stored within 2.4e-7 rad, and a turn is the difference of four such numbers.

    So rudders differ by up to 1e-6 rad x GAIN_S / 0.1 s: the original's law turns rounding into rudder.
    """
    params, draws = shipped_params(model="legacy"), Draws(7, 2000)
    start, chased = (drawn_fights(params, draws, ties=False) for _ in range(2))
    rudder, thrust = start.aircraft.rudder, 10.0 * start.aircraft.throttle
    motion, prey = start.aircraft.motion, chased.aircraft.motion
    sight = legacy.line_of_sight_rad(motion, prey)
    moved = legacy.fly(params.fighter, motion, rudder, thrust, 0.1)
    law, _ = legacy.guidance(moved, prey, sight, 0.1)
    assert (law.abs() < 1.0).float().mean() > 0.3
    for image in (image for image in IMAGES if not image.exchanged):
        picture, other = (image.motion(params, each) for each in (motion, prey))
        flown = legacy.fly(params.fighter, picture, image.hand * rudder, thrust, 0.1)
        assert_same_bits(flown, image.motion(params, moved))
        before = legacy.line_of_sight_rad(picture, other)
        found, _ = legacy.guidance(flown, other, before, 0.1)
        assert (found - image.hand * law).abs().max() <= 1e-6 * legacy.GAIN_S / 0.1
