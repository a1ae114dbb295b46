"""`stg_rule`: shoots who cannot escape, and stays where it can escape itself."""

import math

import pytest
import torch

from navrl.envs.combat.opponents.stg_rule import StgRule
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import initial_state
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
from tests.envs.combat.sim.duels import orders


def crowd(count):
    """Pilots at the origin with enemies anywhere within 25 km, heading anywhere."""
    draw = torch.rand((5, count), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    range_m, line = 4e3 + 21e3 * draw[0], 2 * math.pi * draw[1]
    heading = torch.stack([2 * math.pi * draw[2], line + (draw[3] - 0.5)])
    zero = torch.zeros_like(range_m)
    x_m, y_m = (torch.stack([range_m * side, zero]) for side in (line.cos(), line.sin()))
    speed_mps = torch.stack([200.0 + 250.0 * draw[4], 450.0 - 250.0 * draw[4]])
    motion = Motion(x_m, y_m, heading.cos(), heading.sin(), speed_mps)
    return initial_state(PARAMS, Motion(*(field.float() for field in motion)))


def escaped(state, fire, side):
    """Return the enemies that live if the pilots fire now and they flee, turning to this side first."""
    turning = torch.ones_like(fire)
    for number in range(75):
        motion = state.aircraft.motion
        x_m, y_m = motion.x_m[0] - motion.x_m[1], motion.y_m[0] - motion.y_m[1]
        cos = (motion.cos_heading[0] * x_m + motion.sin_heading[0] * y_m) / torch.hypot(x_m, y_m)
        turning = turning & (cos < 0.95)
        sin = motion.cos_heading[0] * y_m - motion.sin_heading[0] * x_m
        rudder = torch.where(turning, side, (sin / torch.hypot(x_m, y_m) * 3.0).clamp(-1.0, 1.0))
        chosen = orders(
            state,
            rudder=torch.stack([rudder, torch.zeros_like(rudder)]),
            fire=torch.stack([torch.zeros_like(fire), fire & (number == 0)]),
        )
        state, _ = advance(PARAMS, state, chosen)
    return state.aircraft.alive[0]


def test_it_fires_at_those_only_who_cannot_escape():
    state = crowd(400)
    opponent = pilot("stg_rule")
    found, _ = opponent.act(PARAMS, state, 1, opponent.initial(keys(400)))
    anybody = torch.ones_like(found.fire)
    escapes = escaped(state, anybody, 1.0) | escaped(state, anybody, -1.0)
    assert 50 < found.fire.sum() < 350
    assert (escapes & found.fire).sum() <= 0.03 * found.fire.sum()
    assert (~escapes & ~found.fire).sum() <= 0.03 * (~escapes).sum()


def test_it_fires_by_its_margin():
    # Head-on at 300 m/s each nobody outruns a missile from 17.3 km.
    near, far = pilot("stg_rule", attack_margin_m=-3e3), pilot("stg_rule", attack_margin_m=3e3)
    assert [command(s, picture(range_m=17e3))[2] for s in (near, far)] == [False, True]
    assert command(near, picture(range_m=13e3))[2]
    assert not command(far, picture(range_m=22e3))[2]


@pytest.mark.parametrize("robbed", [firing, lambda state: unarmed(state, 1)])
def test_without_a_missile_to_fire_it_leaves_the_reach_of_the_enemy(robbed):
    opponent = pilot("stg_rule", defence_margin_m=1e3)
    for bearing, rudder in ((60.0, -1.0), (-60.0, 1.0)):
        # The shorter turn leads away; 30 km off there is no need, and with a missile it attacks.
        assert command(opponent, robbed(picture(bearing, 15e3)))[::2] == (rudder, False)
        assert command(opponent, robbed(picture(bearing, 30e3)))[0] == -rudder
        assert command(opponent, picture(bearing, 15e3))[0] == -rudder


def test_it_does_not_fly_into_shots_that_others_do_not_survive():
    # Its missile is in the air when the enemy comes, and shoots 12 s later.
    def survives(name):
        fixed = {"crank_angle_rad": 50 * DEGREE} if name == "crank" else {}
        states, _ = flown(pilot(name, **fixed), firing(picture(0.0, 19.5e3)), 75, enemy_fires=(12,))
        assert not states[-1].missiles.active[0].any()
        return states[-1].aircraft.alive[1].item()

    assert survives("stg_rule")
    assert not survives("crank")
    assert not survives("phase2")


def test_it_turns_its_tail_to_a_missile_even_when_it_could_attack():
    assert (
        command(pilot("stg_rule"), incoming(picture(60.0), 30.0, 9e3, speed_mps=1000.0))[0] == -1.0
    )


def test_it_is_refused_without_its_table():
    bare = StgRule(
        attack_margin_m=(0.0, 0.0),
        defence_margin_m=(0.0, 0.0),
        turn_out_fraction=(1.0, 1.0),
        break_time_to_go_s=(3.0, 3.0),
    )
    with pytest.raises(RuntimeError, match=r"call prepare\(params, device\) first$"):
        command(bare, picture())
