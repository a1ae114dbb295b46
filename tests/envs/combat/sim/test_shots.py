"""The reach of a missile: independent of the physics step, and as the equations promise."""

import torch

from navrl.envs.combat.sim.advance import advance
from tests.envs.combat.sim.duels import (
    hits_on_fleeing_targets,
    opening,
    orders,
    shipped_params,
)

# Each range is flown 5 % shorter and longer too: where all three end alike, the edge is far away.
ASPECTS = {"head-on": 180.0, "beam": 90.0, "tail": 0.0}
RANGES_M = {
    "head-on": [4e3, 9e3, 16e3, 24e3, 45e3],
    "beam": [3e3, 6e3, 10e3, 13e3, 24e3],
    "tail": [2e3, 4e3, 6e3, 8e3, 16e3],
}
NEIGHBOURS = [0.95, 1.0, 1.05]
FLIGHT_S = 28


def grid():
    """Range, heading of the target and its rudder for every shot; three neighbours in a row."""
    return [
        (range_m * part, heading, rudder)
        for name, heading in ASPECTS.items()
        for rudder in (0.0, 1.0)
        for range_m in RANGES_M[name]
        for part in NEIGHBOURS
    ]


def decision_of_the_hit(tick_s):
    """The decision of the hit for every shot of the grid, or 99."""
    params = shipped_params(tick_s=tick_s)
    shots = grid()
    state = opening(
        params,
        [(0.0, 0.0, 0.0, 300.0)] * len(shots),
        [(range_m, 0.0, heading, 300.0) for range_m, heading, _ in shots],
    )
    rudder = torch.tensor([[0.0] * len(shots), [rudder for _, _, rudder in shots]])
    found = torch.full((len(shots),), 99)
    for number in range(FLIGHT_S):
        fire = [number == 0, False]
        state, events = advance(params, state, orders(state, rudder=rudder, fire=fire))
        found = torch.where(events.hit[0], number, found)
    return found


def test_the_physics_step_decides_no_shot():
    finest = decision_of_the_hit(0.01)
    hit = (finest < 99).view(-1, len(NEIGHBOURS))
    assert torch.equal(hit.all(1), hit.any(1)), "a shot of the grid lies at the edge of the reach"
    assert 8 < hit[:, 0].sum() < len(hit) - 5, "the grid holds hits and misses"
    for tick_s in (0.05, 0.1, 0.25):
        other = decision_of_the_hit(tick_s)
        assert torch.equal(other < 99, finest < 99)
        assert (other - finest).abs().max() <= 1


def test_the_no_escape_range_at_300_mps_lies_between_17_0_and_17_7_km():
    ranges_m = [16.0e3, 17.0e3, 17.7e3, 19.0e3]
    hit = hits_on_fleeing_targets([(range_m, 300.0, 300.0, 0.0) for range_m in ranges_m])
    assert hit.tolist() == [True, True, False, False]
