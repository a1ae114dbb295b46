"""Margins: against a slow reference, and against what guided missiles really catch."""

import math
from itertools import pairwise

import pytest
import torch

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import aircraft
from navrl.envs.combat.sim.prediction import Steered
from navrl.envs.combat.sim.reach import reach_table
from navrl.envs.combat.sim.spacetime import (
    FIVE_TIMES_S,
    TEN_TIMES_S,
    best_defence_margin_m,
    best_escape,
    margins,
)
from tests.envs.combat.sim.duels import env_rows, motion_of, opening, shipped_params
from tests.envs.combat.sim.scalar_combat import Vehicle

PARAMS = shipped_params()
TABLE = reach_table(PARAMS)
TRUE_NO_ESCAPE_M = 17_380.0  # head-on at 300 m/s; test_shots holds it between 17.0 and 17.7 km


def duel(*pairs):
    """Hunter and prey, from (x, y, heading in degrees, speed) of each."""
    hunters, prey = zip(*pairs, strict=True)
    motion = motion_of(list(hunters), list(prey))
    return tuple(Motion(*(field[side] for field in motion)) for side in (0, 1))


def steered(motion, rudder=0.0, throttle=1.0):
    zero = torch.zeros_like(motion.x_m)
    return Steered(motion, zero + rudder, zero + throttle)


def random_duels(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(2, rows, 4, generator=generator)
    scale = torch.tensor([25_000.0, 25_000.0, 360.0, 290.0])
    table = draw * scale + torch.tensor([0.0, 0.0, 0.0, 200.0])
    return duel(*zip(table[0].tolist(), table[1].tolist(), strict=True))


def head_on(ranges_m, speed=300.0):
    return duel(*(((0.0, 0.0, 0.0, speed), (r, 0.0, 180.0, speed)) for r in ranges_m))


def reference_margin(hunter, prey, side, rudder):
    """One margin and its time in plain floats; side 0 keeps the rudder."""
    kind, thrust, dt = PARAMS.fighter, 14.7, 0.05
    away = math.atan2(prey.y - hunter.y, prey.x - hunter.x)
    left = (side * (away - prey.psi)) % (2.0 * math.pi)  # what is still to turn
    if left > 2.0 * math.pi - math.acos(0.95):
        left = 0.0
    best = (math.inf, 0.0)
    for tick in range(1, 1201):
        wish = side if side and left > 1e-9 else (0.0 if side else rudder)
        moved = prey.flown(kind, wish, thrust, dt)
        turned = abs(moved.psi - prey.psi)
        if side and turned > left:  # only so much of the tick is a turn
            part = dt * left / turned
            moved = prey.flown(kind, wish, thrust, part).flown(kind, 0.0, thrust, dt - part)
            turned = left
        left, prey = left - turned, moved
        if tick % 50 == 0:
            x, y = prey.x - hunter.x, prey.y - hunter.y
            off_nose = abs(math.remainder(math.atan2(y, x) - hunter.psi, 2.0 * math.pi))
            reach = looked_up(hunter.v, math.degrees(off_nose), tick // 50 - 1)
            best = min(best, (math.hypot(x, y) - reach - 100.0, tick * dt))
    return best


def looked_up(speed, angle_deg, row):
    """Bilinear, by hand."""
    table = TABLE.distance_m[row].view(16, 19)
    s, a = min(max((speed - 200.0) / 20.0, 0.0), 15.0), angle_deg / 10.0
    i, j = min(int(s), 14), min(int(a), 17)
    (a0, a1), (b0, b1) = table[i : i + 2, j : j + 2].tolist()
    slow, fast = a0 + (a - j) * (a1 - a0), b0 + (a - j) * (b1 - b0)
    return slow + (s - i) * (fast - slow)


def test_margins_are_those_of_a_slow_reference():
    hunter, prey = random_duels(12, seed=3)
    rudder = torch.tensor([-1.0, 0.0, 1.0, 0.5]).repeat(3)
    found = margins(PARAMS, TABLE, hunter, steered(prey, rudder))
    for row in range(12):
        mine, his = (
            Vehicle(
                *(m[row].item() for m in (motion.x_m, motion.y_m)),
                heading(motion, row),
                speed(motion, row),
            )
            for motion in (prey, hunter)
        )
        expected = {
            "left_m": reference_margin(his, mine, 1.0, 0.0),
            "right_m": reference_margin(his, mine, -1.0, 0.0),
            "current_m": reference_margin(his, mine, 0.0, rudder[row].item()),
        }
        for name, (margin_m, _) in expected.items():
            assert getattr(found, name)[row].item() == pytest.approx(margin_m, abs=2.0), (row, name)
        better = max(expected["left_m"], expected["right_m"])
        assert found.critical_s[row].item() == pytest.approx(better[1])


def heading(motion, row):
    return math.atan2(motion.sin_heading[row].item(), motion.cos_heading[row].item())


def speed(motion, row):
    return motion.speed_mps[row].item()


@pytest.mark.parametrize("times", [None, TEN_TIMES_S, FIVE_TIMES_S])
def test_head_on_the_margin_changes_its_sign_at_the_true_no_escape_range(times):
    table = TABLE if times is None else TABLE.at(times)
    ranges_m = [0.99 * TRUE_NO_ESCAPE_M, TRUE_NO_ESCAPE_M, 1.025 * TRUE_NO_ESCAPE_M]
    found = margins(PARAMS, table, *with_controls(head_on(ranges_m)))
    best = torch.maximum(found.left_m, found.right_m)
    assert (best < 0.0).tolist() == [True, True, False]  # 2.5 % on the safe side
    assert found.critical_s.tolist() == pytest.approx([35.0] * 3, abs=5.0)


def with_controls(pair):
    return pair[0], steered(pair[1])


def test_no_shot_that_hits_both_escapes_had_a_margin():
    # Ranges that scripts/no_escape_table.py finds just within reach of real missiles, 50 m shorter.
    cases = {
        (300.0, 300.0, 0.0, 90.0): 13_800.0,
        (300.0, 300.0, 0.0, 180.0): 12_200.0,
        (200.0, 300.0, 0.0, 0.0): 16_300.0,
        (450.0, 450.0, 0.0, 0.0): 16_750.0,
        (300.0, 300.0, 60.0, 0.0): 14_500.0,
        (300.0, 300.0, 90.0, 0.0): 11_350.0,
    }
    pairs = []
    for (own, target, bearing, aspect), range_m in cases.items():
        for part in (1.0, 1.16):
            place = [part * range_m * f(math.radians(bearing)) for f in (math.cos, math.sin)]
            pairs.append(((0.0, 0.0, 0.0, own), (*place, bearing + 180.0 - aspect, target)))
    margin_m = best_escape(PARAMS, TABLE, *duel(*pairs)).margin_m
    assert (margin_m[0::2] < 0.0).all()
    assert (margin_m[1::2] > 0.0).all()  # and 16 % further it sees that there is a way out


def test_the_better_side_is_the_shorter_turn():
    # The hunter is 30 degrees to the left of the nose: the turn to the right is shorter.
    hunter, prey = duel(
        ((15e3, 8e3, 210.0, 300.0), (0.0, 0.0, 0.0, 300.0)),
        ((15e3, -8e3, 150.0, 300.0), (0.0, 0.0, 0.0, 300.0)),
    )
    found = best_escape(PARAMS, TABLE, hunter, prey)
    assert found.side.tolist() == [-1.0, 1.0]
    assert found.margin_m[0].item() == found.margin_m[1].item()  # mirror images
    all_times = margins(PARAMS, TABLE, hunter, steered(prey))
    assert all_times.right_m[0] > all_times.left_m[0] + 100.0


def in_steps_of_half_a_second():
    """The table, read between its times on straight lines from the launch on."""

    def filled(rows):
        rows = torch.cat([torch.zeros_like(rows[:1]), rows])
        parts = [part / 5 for part in range(1, 6)]
        return torch.stack([torch.lerp(a, b, part) for a, b in pairwise(rows) for part in parts])

    return TABLE._replace(time_s=filled(TABLE.time_s), distance_m=filled(TABLE.distance_m))


def test_few_times_cost_little():
    # The figures of docs/spacetime.md, and of the comment beside the times.
    hunter, prey = random_duels(8000, seed=7)
    craft = steered(prey, torch.linspace(-1.0, 1.0, 8000))
    every = margins(PARAMS, in_steps_of_half_a_second(), hunter, craft)
    ten = margins(PARAMS, TABLE.at(TEN_TIMES_S), hunter, craft)
    best = torch.maximum(every.left_m, every.right_m)
    five = best_escape(PARAMS, TABLE, hunter, prey)
    for few, whole, limit_m in (
        (ten.left_m, every.left_m, 45.0),
        (ten.right_m, every.right_m, 45.0),
        (ten.current_m, every.current_m, 200.0),
        (five.margin_m, best, 50.0),
    ):
        assert (few >= whole - 0.01).all()
        counts = whole.abs() < 4000.0  # deep within reach the depth does not matter
        assert counts.sum() > 500
        assert (few - whole)[counts].quantile(0.95) < limit_m
    assert ((five.margin_m < 0.0) != (best < 0.0)).float().mean() < 0.004


def test_the_defence_is_against_the_nearest_living_enemy():
    params = shipped_params(team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)] * 2, [(0.0, 5e3, 0.0, 300.0)] * 2
    blue = [(16e3, 0.0, 180.0, 300.0)] * 2, [(40e3, 0.0, 180.0, 300.0)] * 2
    state = opening(params, *red, *blue)
    alive = state.aircraft.alive.clone()
    alive[2, 1] = False  # in the second fight the near one is dead
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    found = best_defence_margin_m(params, TABLE, state, 0)
    near, far = (
        best_escape(params, TABLE, aircraft(state, enemy), aircraft(state, 0)).margin_m
        for enemy in (2, 3)
    )
    assert found.tolist() == [near[0].item(), far[1].item()]
    assert found[0] < 0.0 < found[1]
    assert env_rows(found, [1]).tolist() == [far[1].item()]
