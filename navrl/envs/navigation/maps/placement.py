"""The protocol of maps, and the random placement of obstacles without gaps that are too narrow.

A world depends on its key only: the numbers of the n-th obstacle's m-th attempt are a hash of the key,
n and m, so neither the other worlds nor the largest number of obstacles change it.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from navrl.envs.core import random
from navrl.envs.navigation.sim.static_obstacles import FAR_M, StaticObstacles

Bounds = tuple[float, float]

_SHAPES, _PLACES = 17, 18  # what is drawn from the key of a world
_FIRST_BATCH, _NEXT_BATCH = 8, 64  # attempts at once: most obstacles need a few, some very many

# (draws (2, W, A), shapes (F, W, 1)) -> x and y (W, A) of the attempts
Locate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# Whether a candidate and a placed obstacle clash, each given as x, y and shape (F, ...).
Clash = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Map(Protocol):
    """A maker of static obstacles: forest, pillars, or a file."""

    @property
    def count(self) -> int:
        """Return the largest number of obstacles of a world."""

    @property
    def half_side_m(self) -> float:
        """Return half the side of the square that holds all obstacles; infinite where it is unknown."""

    def make(self, key: Tensor, count: Tensor) -> StaticObstacles:
        """Return the obstacles of the worlds with these keys, int64 (G,), and counts, int64 (G,).

        The shapes are those of the largest count; a smaller one leaves out the last obstacles.
        """

    def checked(self) -> Self:
        """Return self, or raise a ValueError that names the impossible number."""


class Placing(NamedTuple):
    """The placement rules of one kind of map."""

    locate: Locate
    clash: Clash
    attempts: int  # per obstacle
    gap_option: str  # what to lower when a world is too dense


def draw_shapes(key: Tensor, numbers: int, count: int) -> Tensor:
    """Draw `numbers` values in [0, 1) for each of `count` obstacles, (numbers, G, count)."""
    draws = random.uniform(random.mix(key ^ _SHAPES), random.WORLD, count * numbers)
    return draws.view(count, numbers, -1).permute(1, 2, 0)


def place(key: Tensor, count: Tensor, shapes: Tensor, placing: Placing) -> tuple[Tensor, Tensor]:
    """Place the obstacles with these shapes (F, G, B): x and y (G, B), FAR_M past the count.

    Obstacles are placed one after the other, each at the first attempt that clashes with none before it.
    """
    most = shapes.shape[2]
    if int(count.min()) < 0 or int(count.max()) > most:
        raise ValueError(
            f"between {int(count.min())} and {int(count.max())} obstacles are requested, and the map "
            f"has count={most}; raise its count"
        )
    x, y = torch.full_like(shapes[0], FAR_M), torch.full_like(shapes[0], FAR_M)
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
            waiting = _try(waiting, batch_key, number, size, (x, y, shapes), placing)
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
    """Write the first of `size` attempts that fits; return the worlds (W,) in which none does."""
    x, y, shapes = world
    draws = random.uniform(key, random.WORLD, 2 * size).view(2, size, -1).transpose(1, 2)
    shape = shapes[:, waiting, number, None]  # (F, W, 1)
    new_x, new_y = placing.locate(draws, shape)  # (W, A)
    clash = placing.clash(
        new_x.unsqueeze(-1),
        new_y.unsqueeze(-1),
        shape.unsqueeze(-1),
        x[waiting, None, :number],
        y[waiting, None, :number],
        shapes[:, waiting, None, :number],
    ).any(-1)
    fitting = clash.to(torch.int64).cumprod(-1).sum(-1)  # how many clash before the first that fits
    found = fitting < size
    row = found.nonzero().squeeze(1)
    column, there = fitting[row], waiting[row]
    x[there, number], y[there, number] = new_x[row, column], new_y[row, column]
    return waiting[~found]
