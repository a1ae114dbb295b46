"""Half-planes of velocities touch the velocity obstacle; and the nearest velocity in all of them."""

import math
import random

import pytest
import torch

from navrl.envs.navigation.planners.collision_prediction import Hazards
from navrl.envs.navigation.planners.orca import HalfPlanes, avoiding, nearest_admissible
from tests.envs.navigation.planners.perceptions import closest_m

SPEED_MPS = 2.0


def on_line(planes, line, wanted):
    """The point nearest to wanted on the edge of this plane, within the planes before it and the circle."""
    normal_x, normal_y, edge = planes[line]
    along_x, along_y = -normal_y, normal_x
    if abs(edge) > SPEED_MPS:
        return None
    reach = math.sqrt(SPEED_MPS**2 - edge * edge)
    low, high = -reach, reach
    for other_x, other_y, other_edge in planes[:line]:
        slope = other_x * along_x + other_y * along_y
        missing = other_edge - edge * (other_x * normal_x + other_y * normal_y)
        if abs(slope) < 1e-12:
            if missing > 0.0:
                return None
        elif slope > 0.0:
            low = max(low, missing / slope)
        else:
            high = min(high, missing / slope)
    if low > high:
        return None
    part = min(max(wanted[0] * along_x + wanted[1] * along_y, low), high)
    return edge * normal_x + part * along_x, edge * normal_y + part * along_y


def linear_program(planes, wanted):
    """The nearest admissible velocity, one plane after the other in float64; None if there is none."""
    length = math.hypot(*wanted)
    scale = min(1.0, SPEED_MPS / length) if length > 0.0 else 1.0
    found = (wanted[0] * scale, wanted[1] * scale)
    for line, (normal_x, normal_y, edge) in enumerate(planes):
        if normal_x * found[0] + normal_y * found[1] < edge:
            found = on_line(planes, line, wanted)
            if found is None:
                return None
    return found


def scenes(count, most_planes):
    """Wanted velocities and planes (normal_x, normal_y, edge), some impossible."""
    drawn = random.Random(0)
    for _ in range(count):
        angles = [drawn.uniform(0.0, 2.0 * math.pi) for _ in range(most_planes)]
        planes = [(math.cos(a), math.sin(a), drawn.uniform(-1.8, 0.7)) for a in angles]
        yield planes, (drawn.uniform(-2.5, 2.5), drawn.uniform(-2.5, 2.5))


@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_the_nearest_velocity_is_that_of_a_linear_program(count):
    drawn = list(scenes(300, count))
    fields = torch.tensor([planes for planes, _ in drawn]).permute(2, 1, 0)
    wanted = torch.tensor([each for _, each in drawn]).t()
    found = nearest_admissible(HalfPlanes(*fields), *wanted, speed_mps=SPEED_MPS)
    solved = 0
    for number, (planes, wish) in enumerate(drawn):
        # A plane more or less by what rounding may miss decides some cases; those say nothing.
        wide, narrow = (
            linear_program([(x, y, edge + slack) for x, y, edge in planes], wish)
            for slack in (-2e-3, 2e-3)
        )
        if (wide is None) != (narrow is None):
            continue
        assert bool(found.exists[number]) == (wide is not None)
        if wide is None:
            continue
        solved += 1
        x, y = float(found.x[number]), float(found.y[number])
        best = math.dist(linear_program(planes, wish), wish)
        assert math.dist((x, y), wish) == pytest.approx(best, abs=3e-3)
        assert math.hypot(x, y) <= SPEED_MPS + 2e-3
        assert all(a * x + b * y >= edge - 2e-3 for a, b, edge in planes)
    assert solved > 20


def test_an_edge_touches_the_velocity_obstacle():
    """Right on it a flight of the horizon just touches the disc, whichever side one comes from."""
    drawn, horizon_s = random.Random(1), 1.5
    hits, seen = 0, 0
    for _ in range(1000):
        angle, away = drawn.uniform(0.0, 2.0 * math.pi), drawn.uniform(1.0, 2.0)
        place, radius = (away * math.cos(angle), away * math.sin(angle)), drawn.uniform(0.3, 0.9)
        motion = (drawn.uniform(-1.5, 1.5), drawn.uniform(-1.5, 1.5))
        own = (drawn.uniform(-2.0, 2.0), drawn.uniform(-2.0, 2.0))
        hazards = Hazards(*(torch.tensor([[value]]) for value in (*place, *motion, radius)))
        x, y = (torch.tensor([value]) for value in own)
        planes = avoiding(hazards, x, y, horizon_s=horizon_s, escape_s=0.1)
        normal = float(planes.normal_x), float(planes.normal_y)
        assert math.hypot(*normal) == pytest.approx(1.0, abs=1e-5)
        margin = float(planes.margin_mps(x, y))
        edge = own[0] - margin * normal[0], own[1] - margin * normal[1]
        assert closest_m(place, motion, edge, horizon_s) == pytest.approx(radius, abs=2e-3)
        collides = closest_m(place, motion, own, horizon_s) < radius
        assert (margin < 0.0) == collides or abs(margin) < 1e-3
        hits, seen = hits + collides, seen + 1
    assert 40 < hits < seen - 40


def test_a_drone_in_a_disc_leaves_it_within_the_time_to_escape():
    hazards = Hazards(*(torch.tensor([[value]]) for value in (0.3, 0.0, 0.0, 0.0, 0.5)))
    still = torch.zeros(1)
    planes = avoiding(hazards, still, still, horizon_s=2.0, escape_s=0.1)
    # 0.2 m away from the disc within 0.1 s: 2 m/s along -x
    found = (planes.normal_x, planes.normal_y, planes.edge_mps)
    assert [value.item() for value in found] == pytest.approx([-1.0, 0.0, 2.0], abs=1e-5)


def test_the_tightest_are_those_that_are_broken_most():
    planes = HalfPlanes(
        torch.ones(4, 1), torch.zeros(4, 1), torch.tensor([[0.0], [3.0], [-1.0], [1.0]])
    )
    kept = planes.tightest(2, torch.ones(1), torch.zeros(1))
    assert kept.edge_mps.flatten().tolist() == [3.0, 1.0]
