"""The maps that the tests of worlds make, and what they ask of frequencies."""

import dataclasses
import math

import torch

from navrl.envs.navigation.maps.forest import Block, Column, ForestMap
from navrl.envs.navigation.maps.pillars import PillarMap
from tests.envs.playing import keys

EDGES_M, SHARES = (1.0, 1.5, 2.0, 4.0, 6.0), (0.10, 0.15, 0.20, 0.55)
PILLARS = PillarMap(
    count=350,
    half_side_m=20.0,
    cell_m=0.1,
    lattice_cells=4,
    sizes_cells=(4, 8),
    height_edges_m=EDGES_M,
    height_weights=SHARES,
    height_step_m=0.1,
    forbidden_gap_cells=(2.0, 10.0),
    attempts=100_000,
).checked()


def block(weight, length_m, width_m, bottom_m, tall_m, *, turned):
    sizes = {"length_m": length_m, "width_m": width_m, "bottom_m": bottom_m, "tall_m": tall_m}
    return Block(weight=weight, turned=turned, **sizes)


SHAPES = {
    "box": block(4.0, (0.3, 1.0), (0.4, 0.8), (0.0, 0.0), (1.0, 5.0), turned=False),
    "post": Column(weight=3.0, diameter_m=(0.2, 0.8), bottom_m=(0.0, 0.0), tall_m=(2.0, 6.0)),
    "wall": block(1.0, (2.0, 4.0), (0.15, 0.25), (0.0, 0.0), (2.0, 6.0), turned=True),
    "floating": block(2.0, (1.1, 1.4), (0.9, 1.0), (0.5, 2.5), (0.3, 1.5), turned=True),
}
FOREST = ForestMap(count=120, half_side_m=12.0, gap_m=1.0, shapes=SHAPES, attempts=20_000).checked()
SMALL_PILLARS = dataclasses.replace(PILLARS, count=60, half_side_m=8.0)


def made(maker, numbers, count=None):
    key = keys(numbers, seed=7)
    count = maker.count if count is None else count
    return maker.make(key, torch.as_tensor(count).expand(key.shape))


def fields(obstacles):
    return [*obstacles.boxes, *obstacles.cylinders]


def binomial(trials, share):
    """Five deviations of how often it happens."""
    return 5.0 * math.sqrt(trials * share * (1.0 - share))
