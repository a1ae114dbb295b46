"""Current and escape lines against the simulator's own ticks, and where they must lead."""

import math

import pytest
import torch

from navrl.envs.combat.sim.flight import Motion, fly
from navrl.envs.combat.sim.prediction import (
    LEFT,
    RIGHT,
    Steered,
    along,
    current_line,
    escape_line,
    escape_lines,
    place_on_escape,
    three_lines,
)
from tests.envs.combat.sim.duels import motion_of, shipped_params

BODY = shipped_params().fighter
POSES = [(1e3 * x, 7e3 - 1e3 * x, 37.0 * x, 180.0 + 20.0 * x) for x in range(15)]
THREAT = (30_000.0, 2_000.0, 0.0, 300.0)


def poses(*wanted, dtype=torch.float32):
    """Motion (N,) of (x, y, heading in degrees, speed)."""
    return Motion(*(field[0].to(dtype) for field in motion_of(list(wanted))))


def flown_in_ticks(line, time_s, tick_s=0.05):
    """The line by short arcs, one of them broken where the turn ends."""
    motion = Motion(*(field.double() for field in line.start))
    rudder, thrust, turn_s = (field.double() for field in line[1:])
    for tick in range(round(time_s / tick_s)):
        part_s = (turn_s - tick * tick_s).clamp(0.0, tick_s)
        motion = fly(BODY, motion, rudder, thrust, part_s)
        motion = fly(BODY, motion, torch.zeros_like(rudder), thrust, tick_s - part_s)
    return motion


@pytest.mark.parametrize("time_s", [0.0, 4.0, 20.0, 60.0])
@pytest.mark.parametrize("name", ["left", "right", "current"])
def test_a_line_is_what_the_simulator_flies(name, time_s):
    motion, threat = poses(*POSES), poses(*[THREAT] * len(POSES))
    rudder = torch.linspace(-1.0, 1.0, len(POSES))
    line = {
        "left": escape_line(BODY, motion, threat, LEFT),
        "right": escape_line(BODY, motion, threat, RIGHT),
        "current": current_line(BODY, Steered(motion, rudder, 0.5 * rudder.abs())),
    }[name]
    found = along(BODY, line, torch.full_like(rudder, time_s))
    expected = flown_in_ticks(line, time_s)
    for field, tolerance in (("x_m", 0.3), ("y_m", 0.3), ("speed_mps", 0.01)):
        assert (getattr(found, field) - getattr(expected, field)).abs().max() < tolerance
    if name != "current":  # whose thrust and turn the shorter way takes for granted
        x_m, y_m = place_on_escape(BODY, line, torch.full_like(rudder, time_s))
        assert torch.hypot(x_m - expected.x_m, y_m - expected.y_m).max() < 0.3
    if name == "current":  # which keeps the throttle: the slowest is the one with least of it
        assert torch.equal(line.thrust_mps2, 0.5 * rudder.abs() * BODY.thrust_mps2)
        assert line.turn_s.isinf().all()


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_an_escape_ends_pointing_exactly_away(side):
    motion, threat = poses(*POSES), poses(*[THREAT] * len(POSES))
    line = escape_line(BODY, motion, threat, side)
    end = along(BODY, line, line.turn_s)
    x, y = motion.x_m - threat.x_m, motion.y_m - threat.y_m
    length = torch.hypot(x, y)
    along_away = (motion.cos_heading * x + motion.sin_heading * y) / length
    turning = along_away < 0.94  # the others: see the next test
    assert turning.sum() >= 12
    assert (end.cos_heading - x / length)[turning].abs().max() < 2e-5
    assert (end.sin_heading - y / length)[turning].abs().max() < 2e-5
    # It is a turn of less than a circle to that side: full rudder, 0 .. 2 pi turn radii of path.
    assert torch.equal(line.rudder, torch.full_like(x, side))
    for index in turning.nonzero().flatten().tolist():
        heading = POSES[index][2]
        away = math.degrees(math.atan2(y[index], x[index]))
        path_m = math.radians((side * (away - heading)) % 360.0) * 1000.0
        speeds = motion.speed_mps[index].item(), end.speed_mps[index].item()
        assert path_m / max(speeds) - 0.1 <= line.turn_s[index] <= path_m / min(speeds) + 0.1
    late = along(BODY, line, line.turn_s + 9.0)
    assert torch.allclose(late.sin_heading, end.sin_heading, atol=1e-6)


@pytest.mark.parametrize(
    ("off_away_deg", "left_turn_deg", "right_turn_deg"),
    [(0.0, 0.0, 0.0), (10.0, 0.0, 10.0), (-10.0, 10.0, 0.0), (30.0, 330.0, 30.0)],
)
def test_who_all_but_points_away_flies_no_circle(off_away_deg, left_turn_deg, right_turn_deg):
    # The threat is at the origin, so away is along x; off_away is to the left of it.
    motion, threat = poses((9e3, 0.0, off_away_deg, 300.0)), poses((0.0, 0.0, 0.0, 300.0))
    for side, turn_deg in ((LEFT, left_turn_deg), (RIGHT, right_turn_deg)):
        line = escape_line(BODY, motion, threat, side)
        end = along(BODY, line, line.turn_s)
        heading = math.degrees(math.atan2(end.sin_heading, end.cos_heading))
        turned = side * (heading - off_away_deg)
        assert turned % 360.0 == pytest.approx(turn_deg, abs=0.01)
        assert (line.turn_s.item() < 1e-3) == (turn_deg == 0.0)


def test_the_mirror_image_of_an_escape_is_the_other_escape_bit_for_bit():
    motion, threat = poses(*POSES), poses(*[THREAT] * len(POSES))
    mirrored = [m._replace(y_m=-m.y_m, sin_heading=-m.sin_heading) for m in (motion, threat)]
    for time_s in (3.0, 11.0, 40.0):
        when = torch.full_like(motion.x_m, time_s)
        left = along(BODY, escape_line(BODY, motion, threat, LEFT), when)
        right = along(BODY, escape_line(BODY, *mirrored, RIGHT), when)
        assert torch.equal(left.x_m, right.x_m)
        assert torch.equal(left.y_m, -right.y_m)
        assert torch.equal(left.speed_mps, right.speed_mps)


def test_stacked_lines_are_the_single_ones():
    motion, threat = poses(*POSES), poses(*[THREAT] * len(POSES))
    craft = Steered(motion, torch.linspace(-1.0, 1.0, len(POSES)), torch.ones(len(POSES)))
    single = [
        escape_line(BODY, motion, threat, LEFT),
        escape_line(BODY, motion, threat, RIGHT),
        current_line(BODY, craft),
    ]
    when = torch.full_like(motion.x_m, 17.0)
    three = along(BODY, three_lines(BODY, craft, threat), when)
    two = along(BODY, escape_lines(BODY, motion, threat), when)
    for row, line in enumerate(single):
        assert torch.equal(three.x_m[row], along(BODY, line, when).x_m)
    assert torch.equal(two.y_m, three.y_m[:2])


def test_a_load_limit_widens_the_turn():
    # 6 g at 300 m/s: curvature 6 * 9.8 / 300^2 = 6.533e-4 1/m, rudder 0.6533, radius 1531 m.
    limited = BODY._replace(max_load_g=6.0)
    motion, threat = poses((9e3, 0.0, 180.0, 300.0)), poses((0.0, 0.0, 0.0, 300.0))
    line = escape_line(limited, motion, threat, LEFT)
    assert line.rudder.item() == pytest.approx(0.65333, rel=1e-4)
    end = along(limited, line, line.turn_s)
    assert end.y_m.item() == pytest.approx(-2.0 * 1000.0 / 0.65333, abs=1.0)
    hard = Steered(motion, torch.tensor([-1.0]), torch.tensor([1.0]))
    assert current_line(limited, hard).rudder.item() == pytest.approx(-0.65333, rel=1e-4)
    slow = motion._replace(speed_mps=torch.tensor([150.0]))  # 2.3 g at full rudder
    assert escape_line(limited, slow, threat, LEFT).rudder.item() == 1.0
