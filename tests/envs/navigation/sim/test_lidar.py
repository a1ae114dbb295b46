"""The lidar against rays cast one by one in three dimensions and float64, and its noise."""

import math
import re
import shutil
from functools import partial

import pytest
import torch
from torch._inductor.utils import run_and_get_code

from navrl.envs.core.compiling import Compiled
from navrl.envs.navigation.sim.lidar import Lidar, LidarNoise, add_noise, cast
from navrl.envs.navigation.sim.static_obstacles import (
    Boxes,
    Cylinders,
    Grid,
    absent_boxes,
    absent_cylinders,
    build_worlds,
)
from tests.envs.navigation.sim import rays

LIDAR = Lidar(range_m=4.0, beams=36, rings=4, ring_low_deg=-10.0, ring_high_deg=20.0)
GRID = Grid(half_extent_m=10.0, cell_m=1.0, reach_m=4.0)
ROUNDING_M = 3e-6  # positions of 10 m and differences of 4 m in float32
TOLERANCE_M = 2e-5  # of a range whose obstacle is known that well


def world_of(boxes=None, cylinders=None, grid=GRID):
    """One world of (x, y, half_x, half_y, yaw, bottom, top) and (x, y, radius, bottom, top)."""
    solid = absent_boxes(1, 1)
    if boxes:
        x, y, half_x, half_y, yaw, bottom, top = (
            torch.tensor(boxes, dtype=torch.float64).t().unsqueeze(1)
        )
        solid = Boxes(x, y, half_x, half_y, yaw.cos(), yaw.sin(), bottom, top)
    round_ = absent_cylinders(1, 1)
    if cylinders:
        round_ = Cylinders(*torch.tensor(cylinders, dtype=torch.float64).t().unsqueeze(1))
    return build_worlds(
        grid,
        Boxes(*(field.float() for field in solid)),
        Cylinders(*(field.float() for field in round_)),
        boxes_per_cell=80 if boxes else 0,
        cylinders_per_cell=48 if cylinders else 0,
    )


def random_world(seed, boxes=60, cylinders=30):
    """A crowd of pillars, turned boxes, floating boxes and columns within 8 m of the middle."""
    draw = partial(torch.rand, generator=torch.Generator().manual_seed(seed))
    place = (draw(boxes, 2) - 0.5) * 14.0
    half = 0.05 + 0.6 * draw(boxes, 2)
    yaw = torch.where(draw(boxes) < 0.4, 0.0, draw(boxes) * 2.0 * math.pi)
    bottom = torch.where(draw(boxes) < 0.6, 0.0, 3.0 * draw(boxes))
    top = bottom + 0.1 + 3.0 * draw(boxes)
    solid = torch.cat([place, half, torch.stack([yaw, bottom, top], 1)], 1)
    place = (draw(cylinders, 2) - 0.5) * 14.0
    bottom = torch.where(draw(cylinders) < 0.7, 0.0, 3.0 * draw(cylinders))
    sizes = torch.stack(
        [0.05 + 0.5 * draw(cylinders), bottom, bottom + 0.1 + 3.0 * draw(cylinders)], 1
    )
    return world_of(solid.tolist(), torch.cat([place, sizes], 1).tolist())


def random_sensors(seed, count):
    draw = partial(torch.rand, generator=torch.Generator().manual_seed(seed))
    turn = draw(count) * 2.0 * math.pi
    return (
        (draw(count) - 0.5) * 17.0,
        (draw(count) - 0.5) * 17.0,
        draw(count) * 4.0,
        turn.cos(),
        turn.sin(),
    )


def sensors_at(*rows):
    """(x, y, z, heading) of each."""
    x, y, z, turn = torch.tensor(rows, dtype=torch.float64).t()
    return x.float(), y.float(), z.float(), turn.cos().float(), turn.sin().float()


def seen(world, sensors, lidar=LIDAR, grid=GRID):
    return cast(lidar, grid, world, torch.zeros(len(sensors[0]), dtype=torch.int64), *sensors)


def check(world, sensors, lidar=LIDAR):
    """Compare, and return the share of rays whose range hangs on the last bits of the positions.

    What is seen lies between what obstacles a rounding larger and a rounding smaller would show; where a
    ray grazes a corner these two differ by much, and both are right.
    """
    boxes, cylinders = (type(kind)(*(field[0] for field in kind)) for kind in world[:2])
    larger, smaller = (
        rays.ranges(lidar, boxes, cylinders, sensors, grow) for grow in (ROUNDING_M, -ROUNDING_M)
    )
    got = seen(world, sensors, lidar).double()
    assert ((got >= larger - TOLERANCE_M) & (got <= smaller + TOLERANCE_M)).all()
    return float((smaller - larger > 1e-4).double().mean())


WIDE = Lidar(range_m=3.0, beams=7, rings=5, ring_low_deg=-60.0, ring_high_deg=75.0)


@pytest.mark.parametrize(("seed", "lidar"), [(0, LIDAR), (1, LIDAR), (2, WIDE)])
def test_random_rays_are_exact(seed, lidar):
    world, sensors = random_world(seed), random_sensors(seed, 150)  # 21,600 rays
    assert check(world, sensors, lidar) < 0.01
    got = seen(world, sensors, lidar)
    assert 0.2 < float((got < lidar.range_m).double().mean()) < 0.9
    assert (got == 0.0).any()  # some sensors are in an obstacle


def test_rays_along_sides_and_edges():
    half, near = 0.5, (0.0, 1e-7, 1e-6, 1e-5, 1e-3, 0.2)
    world = world_of(
        boxes=[
            (0.0, 0.0, half, half, 0.0, 0.0, 2.0),
            (5.0, 5.0, half, half, math.pi / 6.0, 0.0, 2.0),
            (-5.0, 5.0, half, half, 0.0, 1.0, 2.0),
        ],
        cylinders=[(5.0, -5.0, half, 0.0, 2.0)],
    )
    rows = []
    for gap in (sign * size for sign in (-1.0, 1.0) for size in near):
        for heading in (0.0, 0.5 * math.pi, math.pi, -0.5 * math.pi):
            rows += [(-2.0, half + gap, 1.0, heading), (half + gap, -2.0, 1.0, heading)]
            rows += [(half + gap, half + gap, 1.0, heading)]  # at a corner
            rows += [
                (-2.0, 0.0, 2.0 + gap, heading),
                (-7.0, 5.0, 1.0 + gap, heading),
            ]  # over, under
            rows += [(3.0, -5.0 + half + gap, 1.0, heading)]  # past a cylinder
        cos, sin = math.cos(math.pi / 6.0), math.sin(math.pi / 6.0)
        ahead, side = -2.0, half + gap
        rows += [
            (5.0 + ahead * cos - side * sin, 5.0 + ahead * sin + side * cos, 1.0, math.pi / 6.0)
        ]
    check(world, sensors_at(*rows))


def test_the_borders_of_cells_and_of_the_grid():
    world = random_world(4)
    ticks = [float(tick) for tick in range(-8, 9, 4)]
    near = (0.0, 1e-6, -1e-6, 1e-4)
    inside = [(x + gap, y - gap, 1.0, 0.4) for x in ticks for y in ticks for gap in near]
    outside = [
        (x, y, 1.0, 0.4) for x in (-12.0, -9.999, 9.999, 10.0, 12.0) for y in (-11.0, 0.0, 10.0)
    ]
    assert check(world, sensors_at(*inside, *outside)) < 0.01


def test_beams_turn_left_from_the_heading_and_rings_rise():
    """A pillar in front, a low one to the left, an open ground."""
    world = world_of(
        boxes=[(2.0, 0.0, 0.5, 0.5, 0.0, 0.0, 5.0), (0.0, 3.0, 0.5, 0.5, 0.0, 0.0, 1.2)]
    )
    ahead, turned = seen(world, sensors_at((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 1.0, 0.5 * math.pi)))
    cos = [math.cos(math.radians(angle)) for angle in (-10, 0, 10, 20)]
    assert ahead[0].tolist() == pytest.approx([1.5 / each for each in cos], abs=1e-5)
    # 2.5 m to the low pillar's side: at 10 degrees the ray is 0.44 m higher there, 0.2 are enough to miss.
    assert ahead[9].tolist() == pytest.approx([2.5 / cos[0], 2.5, 4.0, 4.0], abs=1e-5)
    assert turned.tolist() == [pytest.approx(row, abs=1e-5) for row in ahead.roll(-9, 0).tolist()]
    assert (ahead[18:27] == 4.0).all()
    low = seen(world, sensors_at((-5.0, -5.0, 0.5, 0.0)))[0]
    assert low[:, 0].numpy() == pytest.approx(0.5 / math.sin(math.radians(10.0)), abs=1e-5)
    assert (low[:, 1:] == 4.0).all()


def test_every_drone_sees_its_own_world():
    boxes = Boxes(
        *(torch.tensor([[value], [value]]) for value in (2.0, 0.0, 0.5, 0.5, 1.0, 0.0, 0.0, 5.0))
    )
    boxes = boxes._replace(x=torch.tensor([[2.0], [3.0]]))
    world = build_worlds(
        GRID, boxes, absent_cylinders(2, 0), boxes_per_cell=1, cylinders_per_cell=0
    )
    sensors = sensors_at(*[(0.0, 0.0, 1.0, 0.0)] * 4)
    got = cast(LIDAR, GRID, world, torch.tensor([0, 1, 1, 0]), *sensors)
    assert got[:, 0, 1].tolist() == pytest.approx([1.5, 2.5, 2.5, 1.5], abs=1e-6)


def test_a_scan_does_not_depend_on_the_others_and_traces_into_one_graph():
    world, sensors = random_world(6), random_sensors(6, 300)  # more than are cast at once
    got = seen(world, sensors)
    part = seen(world, tuple(field[130:133] for field in sensors))
    assert torch.equal(part, got[130:133])
    traced = torch.compile(
        partial(cast, LIDAR, GRID), backend="eager", fullgraph=True, dynamic=False
    )
    assert torch.equal(traced(world, torch.zeros(300, dtype=torch.int64), *sensors), got)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiles")
def test_compiled_it_is_the_same_and_no_tensor_holds_every_ray_and_obstacle():
    """One that does is written to memory and read again, which costs more than all the arithmetic."""
    world, sensors = random_world(8), random_sensors(8, 64)
    compiled = Compiled(partial(cast, LIDAR, GRID), "on")
    got, codes = run_and_get_code(compiled, world, torch.zeros(64, dtype=torch.int64), *sensors)
    assert float((got - seen(world, sensors)).abs().quantile(0.999)) < TOLERANCE_M
    shapes = re.findall(r"empty_strided_cpu\(\(([\d, ]+)\)", "".join(codes))
    sizes = [math.prod(map(int, re.findall(r"\d+", shape))) for shape in shapes]
    assert len(sizes) > 3
    assert max(sizes) <= 64 * LIDAR.beams * LIDAR.rings


@pytest.mark.parametrize(
    "change",
    [
        *({"range_m": 0.0}, {"beams": 0}, {"rings": 0}, {"rings": 1}),
        *({"ring_low_deg": 30.0}, {"ring_high_deg": 90.0}),
    ],
    ids=str,
)
def test_impossible_lidars_are_refused(change):
    shape = {"range_m": 4.0, "beams": 36, "rings": 4, "ring_low_deg": -10.0, "ring_high_deg": 20.0}
    with pytest.raises(ValueError, match=r"change env.sim.lidar."):
        Lidar(**(shape | change))


def test_a_lidar_that_sees_beyond_the_table_is_refused():
    far = Lidar(range_m=5.0, beams=4, rings=1, ring_low_deg=0.0, ring_high_deg=0.0)
    with pytest.raises(ValueError, match=r"expected the grid's reach_m or less"):
        seen(world_of(), random_sensors(7, 2), far)


RANGE_M = 4.0
KEY = torch.arange(500) * 7919 + 13
STEP = torch.full((500,), 3.0)


def measured(ranges, key=KEY, step=STEP, **noise):
    return add_noise(
        LidarNoise(**({"range_sigma_m": 0.0, "dropout": 0.0} | noise)), ranges, key, step, RANGE_M
    )


def test_the_error_has_the_standard_configured_deviation():
    ranges = torch.full((144, 500), 2.0)
    error = measured(ranges, range_sigma_m=0.02) - ranges
    assert float(error.mean()) == pytest.approx(0.0, abs=3e-4)  # 72,000 of them: 4 standard errors
    assert float(error.std()) == pytest.approx(0.02, rel=0.01)
    # Of normal numbers 68.3 and 95.4 % are within one and two; of sums of four uniform ones 66.9 and 95.7 %.
    assert float((error.abs() < 0.02).float().mean()) == pytest.approx(0.669, abs=0.007)
    assert float((error.abs() < 0.04).float().mean()) == pytest.approx(0.957, abs=0.003)


def test_rays_are_lost_as_often_as_configured():
    ranges = torch.full((144, 500), 2.0)
    got = measured(ranges, dropout=0.25)
    assert set(got.unique().tolist()) == {2.0, RANGE_M}
    assert float((got == RANGE_M).float().mean()) == pytest.approx(0.25, abs=0.007)
    assert (measured(ranges, dropout=1.0) == RANGE_M).all()


def test_what_is_free_stays_free_and_no_range_is_impossible():
    ranges = torch.cat(
        [torch.full((50, 500), RANGE_M), torch.zeros(50, 500), torch.full((50, 500), 3.99)]
    )
    got = measured(ranges, range_sigma_m=0.5)
    assert (got[:50] == RANGE_M).all()
    assert float(got.min()) == 0.0
    assert float(got.max()) == RANGE_M
    assert torch.equal(measured(ranges), ranges)


def test_errors_are_of_the_episode_and_the_step_and_of_nothing_else():
    ranges = torch.full((144, 500), 2.0)
    got = measured(ranges, range_sigma_m=0.1, dropout=0.1)
    assert torch.equal(got, measured(ranges, range_sigma_m=0.1, dropout=0.1))
    part = measured(ranges[:, 7:9], KEY[7:9], STEP[7:9], range_sigma_m=0.1, dropout=0.1)
    assert torch.equal(part, got[:, 7:9])
    now, later = (measured(ranges, step=STEP + more, range_sigma_m=0.1) for more in (0.0, 1.0))
    columns = torch.cat([now, later], 1).t()
    correlation = torch.corrcoef(columns - columns.mean(0))
    assert (
        float((correlation - torch.eye(1000)).abs().max()) < 0.5
    )  # 144 numbers each: 6 standard errors


@pytest.mark.parametrize(
    "change", [{"range_sigma_m": -1.0}, {"dropout": -0.1}, {"dropout": 1.1}], ids=str
)
def test_impossible_errors_are_refused(change):
    with pytest.raises(ValueError, match=r"change env.sim.noise"):
        measured(torch.ones(2, 500), **change)
