"""Worlds out of keys: what every maker offers, and how obstacles are placed at random without narrow gaps.

A world depends on its key only: the numbers of the n-th obstacle's m-th attempt are a hash of the key,
n and m, so neither the other worlds nor the largest number of obstacles change it.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from navrl.envs.core import random, requirements
from navrl.envs.navigation.sim.obstacles import (
    FAR_M,
    Boxes,
    CrowdedError,
    Cylinders,
    Grid,
    Worlds,
    build_worlds,
)

Bounds = tuple[float, float]

_SHAPES, _PLACES = 17, 18  # what is drawn from the key of a world
_FIRST_BATCH, _NEXT_BATCH = 8, 64  # attempts at once: most obstacles need a few, some very many
_REDRAWS = 8  # of a world with too much in one place; more would hide that the tables are too small

# (draws (2, W, A), bodies (F, W, 1)) -> x and y (W, A) of the attempts
Locate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# Whether a candidate and a placed obstacle clash, each given as x, y and body (F, ...)
Clash = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Obstacles(NamedTuple):
    """What stands in G worlds."""

    boxes: Boxes
    cylinders: Cylinders


class Map(Protocol):
    """What makes worlds."""

    @property
    def count(self) -> int:
        """The most obstacles of a world."""

    @property
    def half_side_m(self) -> float:
        """Obstacles lie within the square of these half sides; infinite where nobody drew them."""

    def make(self, key: Tensor, count: Tensor) -> Obstacles:
        """The worlds with these keys, int64 (G,), each with its count of obstacles, int64 (G,).

        The shapes are those of the largest count; a smaller one leaves out the last obstacles.
        """

    def checked(self) -> Self:
        """Self, or a ValueError that says which number is impossible."""


def make_worlds(
    maker: Map,
    grid: Grid,
    key: Tensor,
    count: Tensor,
    *,
    boxes_per_cell: int,
    cylinders_per_cell: int,
) -> tuple[Obstacles, Worlds]:
    """The worlds with these keys, and their tables.

    One in very many worlds has a place with more obstacles in sight than the tables hold. It is drawn
    anew from the key that follows its own, so that a run does not end because of it. Where most have,
    drawing is of no use.
    """
    limits = (boxes_per_cell, cylinders_per_cell)
    obstacles = maker.make(key, count)
    for _ in range(_REDRAWS):
        try:
            return obstacles, _build(grid, obstacles, limits)
        except CrowdedError as error:
            if int(error.worlds.sum()) > max(1, key.shape[0] // 2):
                raise
            key = torch.where(error.worlds, random.mix(key), key)
            before, obstacles = obstacles, maker.make(key, count)
            same_boxes = torch.equal(before.boxes.x, obstacles.boxes.x)
            if same_boxes and torch.equal(before.cylinders.x, obstacles.cylinders.x):
                raise  # a map that is always the same
    return obstacles, _build(grid, obstacles, limits)


def _build(grid: Grid, obstacles: Obstacles, limits: tuple[int, int]) -> Worlds:
    boxes_per_cell, cylinders_per_cell = limits
    return build_worlds(
        grid, *obstacles, boxes_per_cell=boxes_per_cell, cylinders_per_cell=cylinders_per_cell
    )


class Placing(NamedTuple):
    """How one kind of map puts its obstacles down."""

    locate: Locate
    clash: Clash
    attempts: int  # per obstacle
    gap_option: str  # what to lower when a world is too dense


def draw_shapes(key: Tensor, numbers: int, count: int) -> Tensor:
    """`numbers` draws in [0, 1) for each of `count` obstacles, (numbers, G, count)."""
    draws = random.uniform(random.mix(key ^ _SHAPES), random.WORLD, count * numbers)
    return draws.view(count, numbers, -1).permute(1, 2, 0)


def place(key: Tensor, count: Tensor, bodies: Tensor, placing: Placing) -> tuple[Tensor, Tensor]:
    """Where the obstacles with these bodies (F, G, B) stand, x and y (G, B); far away past the count.

    One after the other, each at the first place that it tries and that clashes with none before it.
    """
    most = bodies.shape[2]
    if int(count.min()) < 0 or int(count.max()) > most:
        raise ValueError(
            f"between {int(count.min())} and {int(count.max())} obstacles are asked for, and the map "
            f"has count={most}; raise its count"
        )
    x, y = torch.full_like(bodies[0], FAR_M), torch.full_like(bodies[0], FAR_M)
    key = random.mix(key ^ _PLACES)
    for number in range(int(count.max())):
        waiting = (count > number).nonzero().squeeze(1)
        tried = 0
        for batch in itertools.count():
            if waiting.numel() == 0:
                break
            if tried >= placing.attempts:
                raise ValueError(
                    f"the world is too dense: {number} of {int(count.max())} obstacles found a place in "
                    f"{tried} attempts each; lower count or {placing.gap_option}"
                )
            size = _NEXT_BATCH if batch else _FIRST_BATCH
            batch_key = random.mix(key[waiting] ^ (number << 32 | batch))
            waiting = _try(waiting, batch_key, number, size, (x, y, bodies), placing)
            tried += size
    return x, y


def _try(
    waiting: Tensor,
    key: Tensor,
    number: int,
    size: int,
    world: tuple[Tensor, Tensor, Tensor],
    placing: Placing,
) -> Tensor:
    """Write the first of `size` attempts that fits, where one does; the worlds (W,) that wait on."""
    x, y, bodies = world
    draws = random.uniform(key, random.WORLD, 2 * size).view(2, size, -1).transpose(1, 2)
    body = bodies[:, waiting, number, None]  # (F, W, 1)
    new_x, new_y = placing.locate(draws, body)  # (W, A)
    clash = placing.clash(
        new_x.unsqueeze(-1),
        new_y.unsqueeze(-1),
        body.unsqueeze(-1),
        x[waiting, None, :number],
        y[waiting, None, :number],
        bodies[:, waiting, None, :number],
    ).any(-1)
    fitting = clash.to(torch.int64).cumprod(-1).sum(-1)  # how many clash before the first that fits
    found = fitting < size
    row = found.nonzero().squeeze(1)
    column, there = fitting[row], waiting[row]
    x[there, number], y[there, number] = new_x[row, column], new_y[row, column]
    return waiting[~found]


def require(group: str, maker: object, name: str, satisfied: bool, expected: str) -> None:
    """A ValueError that names the option of the maker, unless it is satisfied."""
    requirements.require(f"{group}.{name}", getattr(maker, name), satisfied, expected)
