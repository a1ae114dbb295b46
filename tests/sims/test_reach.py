"""What a missile reaches, over hundreds of shots: a matter of the rules, not of the physics step."""

import itertools
import math

import pytest
import torch

from navrl.sims.combat import advance
from tests.sims.duels import opening, orders, shipped_params

# Every combination, so the grid was not chosen by its outcome: some shots lie at the edge of the reach.
RANGES_M = [2e3 + 4e3 * n for n in range(10)]
ASPECTS = [0.0, 45.0, 90.0, 135.0, 180.0]  # target's heading off the line to the shooter
SPEEDS_MPS = [200.0, 300.0, 400.0]
EVASIONS = ["straight", "circle", "weave", "run"]
SHOTS = list(itertools.product(RANGES_M, ASPECTS, SPEEDS_MPS, EVASIONS))
FLIGHT_S = 80  # no missile lives longer


def evasive_rudder(state, kinds, second):
    """The rudder of every target: none, full left, full and changing every 4 s, or to run away."""
    motion = state.aircraft.motion
    x, y = motion.x_m[1] - motion.x_m[0], motion.y_m[1] - motion.y_m[0]
    cos, sin = motion.cos_heading[1], motion.sin_heading[1]
    off_the_run = torch.atan2(cos * y - sin * x, cos * x + sin * y)
    side = 1.0 if second % 8 < 4 else -1.0
    choices = {
        "straight": torch.zeros_like(x),
        "circle": torch.ones_like(x),
        "weave": torch.full_like(x, side),
        "run": (off_the_run / math.radians(20.0)).clamp(-1.0, 1.0),
    }
    chosen = torch.tensor([EVASIONS.index(kind) for kind in kinds])
    return torch.stack([choices[name] for name in EVASIONS]).gather(0, chosen.unsqueeze(0))[0]


def hits(shots, **changes):
    """Hit or not, bool for every (range m, aspect in degrees, speed of both, evasion)."""
    params = shipped_params(**changes)
    state = opening(
        params,
        [(0.0, 0.0, 0.0, speed) for _, _, speed, _ in shots],
        [(range_m, 0.0, 180.0 - aspect, speed) for range_m, aspect, speed, _ in shots],
    )
    kinds = [kind for *_, kind in shots]
    found = torch.zeros(len(shots), dtype=torch.bool)
    for second in range(FLIGHT_S):
        rudder = torch.stack([torch.zeros(len(shots)), evasive_rudder(state, kinds, second)])
        state, events = advance(params, state, orders(state, rudder, fire=[second == 0, False]))
        found = found | events.hit[0]
        if not state.missiles.active.any():
            break
    assert not state.missiles.active.any(), "every missile has hit or ended"
    return found


def changed(found, expected):
    return [shot for shot, a, b in zip(SHOTS, found, expected, strict=True) if a != b]


def test_the_step_changes_no_outcome_of_600_shots():
    expected = hits(SHOTS, tick_s=0.05)
    for kind in EVASIONS:  # the grid holds hits and misses of each
        part = torch.tensor([shot[3] == kind for shot in SHOTS])
        assert 30 < expected[part].sum() < part.sum() - 30
    for tick_s in (0.1, 0.2, 0.25):
        assert changed(hits(SHOTS, tick_s=tick_s), expected) == []


@pytest.mark.slow
def test_steps_of_10_ms_give_the_outcomes_of_600_shots_too():
    assert changed(hits(SHOTS, tick_s=0.01), hits(SHOTS, tick_s=0.25)) == []


def test_a_smaller_or_larger_hit_radius_does_change_outcomes():
    # The grid is not deaf: a radius of a fifth or of ten times the shipped one decides some shots.
    expected = hits(SHOTS, tick_s=0.25)
    assert changed(hits(SHOTS, tick_s=0.25, hit_radius_m=20.0), expected)
    assert changed(hits(SHOTS, tick_s=0.25, hit_radius_m=1000.0), expected)


@pytest.mark.parametrize("tick_s", [0.1, 0.25])
def test_the_reach_against_a_target_that_flies_straight(tick_s):
    # At 300 m/s each, from a float64 integration: last hit and first miss are 100 m apart.
    reach_m = {0.0: 73_900.0, 45.0: 28_800.0, 90.0: 18_600.0}
    shots = [
        (range_m + more, aspect, 300.0, "straight")
        for aspect, range_m in reach_m.items()
        for more in (-0.01 * range_m, 0.01 * range_m)
    ]
    assert hits(shots, tick_s=tick_s).tolist() == [True, False] * len(reach_m)
