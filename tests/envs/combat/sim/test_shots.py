"""The reach of a missile: independent of the physics step, and as the equations promise."""

import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import initial_state
from tests.envs.combat.sim.duels import hits_on_fleeing_targets, orders, shipped_params
from tests.envs.combat.sim.fights import Draws

FLIGHT_S = 30
# A shot is too close to call if half of the hit radius more or less, with 2 % of the least speed, changes its
# outcome. A missile with its rudder hard over behind a target that circles passes up to 50 m further away
# with steps of 0.1 s, because it is guided at their beginning only: at the edge of its reach.
RADII_M, LEAST_MPS = (50.0, 150.0), (204.0, 196.0)


def shots(count):
    """Return openings, and a rudder of the target for every second; it weaves, or keeps its rudder."""
    draws = Draws(1, count)
    off_nose, course = draws.between(-1.2, 1.2), draws.between(-math.pi, math.pi)
    range_m = 1.5e3 * (20.0 ** draws.between(0.0, 1.0))
    zero = torch.zeros(count)
    motion = Motion(
        x_m=torch.stack([zero, range_m * off_nose.cos()]),
        y_m=torch.stack([zero, range_m * off_nose.sin()]),
        cos_heading=torch.stack([zero + 1.0, course.cos()]),
        sin_heading=torch.stack([zero, course.sin()]),
        speed_mps=draws.between(200.0, 450.0, 2),
    )
    weaves, held = draws.chance(0.5), draws.between(-1.0, 1.0)
    rudder = torch.where(weaves, draws.between(-1.0, 1.0, FLIGHT_S), held)
    return motion, rudder


def hits(motion, rudder, tick_s, **changes):
    """Return which of these shots hit within FLIGHT_S with this physics step."""
    params = shipped_params(tick_s=tick_s)._replace(**changes)
    state = initial_state(params, motion)
    hit = torch.zeros(motion.x_m.shape[1], dtype=torch.bool)
    for second in range(FLIGHT_S):
        steering = torch.stack([torch.zeros_like(rudder[second]), rudder[second]])
        fire = [second == 0, False]
        state, events = advance(params, state, orders(state, steering, fire=fire))
        hit = hit | events.hit[0]
    return hit


def surely(motion, rudder, tick_s):
    """Return which shots hit in spite of the margin, and which miss in spite of it; in one batch."""
    both = lambda pair: torch.tensor(pair).repeat_interleave(rudder.shape[1])  # noqa: E731
    limits = {"hit_radius_m": both(RADII_M), "self_destruct_speed_mps": both(LEAST_MPS)}
    twice = Motion(*(torch.cat([field, field], 1) for field in motion))
    strict, lenient = hits(twice, torch.cat([rudder, rudder], 1), tick_s, **limits).chunk(2)
    assert not (strict & ~lenient).any()
    return strict, ~lenient


@pytest.mark.parametrize(
    ("count", "finest_s", "ticks_s"),
    [
        (800, 0.025, (0.1, 0.05)),
        pytest.param(8000, 0.1 / 32, (0.1, 0.05, 0.025, 0.0125), marks=pytest.mark.slow),
    ],
)
def test_the_physics_step_decides_no_shot(count, finest_s, ticks_s):
    motion, rudder = shots(count)
    hit, missed = surely(motion, rudder, finest_s)
    assert (~hit & ~missed).float().mean() < 0.025, "too many are too close to call"
    assert min(hit.float().mean(), missed.float().mean()) > 0.1
    for tick_s in ticks_s:
        found = hits(motion, rudder, tick_s)
        assert found[hit].all(), tick_s
        assert not found[missed].any(), tick_s


def test_the_no_escape_range_at_300_mps_lies_between_17_0_and_17_7_km():
    ranges_m = [16.0e3, 17.0e3, 17.7e3, 19.0e3]
    hit = hits_on_fleeing_targets([(range_m, 300.0, 300.0, 0.0) for range_m in ranges_m])
    assert hit.tolist() == [True, True, False, False]
