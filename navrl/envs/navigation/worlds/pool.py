"""The pool of worlds that episodes draw from; it is renewed in place while the env runs.

A renewed pool holds two sets of worlds. Episodes begin in the newer set; the older one is replaced only when
the last episode that began there must be over. Tensors stay the same, as compiled steps need.
"""

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from navrl.config.checks import require, require_whole
from navrl.envs.core import random
from navrl.envs.navigation.maps.placement import Map
from navrl.envs.navigation.sim.advance import StartTables, static_gap_m
from navrl.envs.navigation.sim.lidar import cast_at
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import horizontal_unit
from navrl.envs.navigation.sim.static_obstacles import (
    CrowdedError,
    Grid,
    StaticObstacles,
    Worlds,
    build_worlds,
    in_sight,
)
from navrl.envs.navigation.worlds.routes import RandomRoutes, Routes
from navrl.storage.schema import Each, whole


class Difficulty(NamedTuple):
    """The number of obstacles in a world; the options of map and simulator limit it."""

    static: int
    moving: int

    def checked(self, prefix: str, room: "Difficulty") -> "Difficulty":
        """Return self, or raise ConfigError for an impossible number; `prefix` begins the options' names."""
        for name, value, most in zip(self._fields, self, room, strict=True):
            expected = f"a whole number from 0 to {most}, the room in the env"
            require(type(value) is int and 0 <= value <= most, f"{prefix}{name}", value, expected)
        return self


def spread(shares: Mapping[int, float], count: int) -> list[int]:
    """Return one of the keys for each of `count` worlds, in these proportions and evenly mixed."""
    total, assigned = sum(shares.values()), dict.fromkeys(shares, 0)
    plan = []
    for number in range(1, count + 1):
        missing = {key: share / total * number - assigned[key] for key, share in shares.items()}
        chosen = max(missing, key=lambda key: missing[key])
        assigned[chosen] += 1
        plan.append(chosen)
    return plan


_MOST_GENERATIONS = 1 << 40
_TRAINING, _HELD_OUT = 20, 21  # streams of the seed
_AT_ONCE = 2048  # scans
_REDRAWS = 8  # of a world with a crowded place; more would hide that the tables are too small


class Recipe(NamedTuple):
    """The inputs from which a set of worlds is made, besides the seed."""

    generation: int
    stages: tuple[int, ...]  # the stage of each world
    held_out: bool


class WorldPool:
    """`count` worlds at a time; every episode draws one of them and one of its routes."""

    def __init__(
        self,
        *,
        count: int,
        renew_episodes: float | None,
        half_extent_m: float,
        cell_m: float,
        boxes_per_cell: int,
        cylinders_per_cell: int,
        routes_per_world: int,
        map: Map,
        routes: RandomRoutes,
        difficulty: Difficulty,
    ) -> None:
        require_whole("world.count", count, 1)
        require_whole("world.routes_per_world", routes_per_world, 1)
        usable = renew_episodes is None or 1.0 <= renew_episodes < math.inf
        expected = "1 or more, since episodes end in the worlds in which they begin, or null"
        require(usable, "world.renew_episodes", renew_episodes, expected)
        self.share, self._renew_episodes = count, renew_episodes
        self._half_extent_m, self._cell_m = half_extent_m, cell_m
        self._boxes_per_cell, self._cylinders_per_cell = boxes_per_cell, cylinders_per_cell
        self._num_routes = routes_per_world
        self._map, self._routes = map.checked(), routes.checked()
        self._stages = [difficulty]
        self._plan = (0,) * count
        self._made: list[Recipe] = []

    @property
    def room(self) -> Difficulty:
        """Return the largest difficulty that a world has room for."""
        return Difficulty(self._map.count, self._params.moving.count)

    def prepare(self, params: NavigationParams, device: torch.device | str) -> None:
        """Set the simulator's options; called once, before the first worlds are made."""
        self.renew_steps: int | None = None
        if self._renew_episodes is not None:
            self.renew_steps = math.ceil(self._renew_episodes * params.decisions)
        self._params, self._device = params, torch.device(device)
        self._stages[0].checked("world.difficulty.", self.room)
        self.grid = Grid(
            half_extent_m=self._half_extent_m, cell_m=self._cell_m, reach_m=params.lidar.range_m
        )
        self._check_density()
        self._openings: StartTables | None = None

    def _check_density(self) -> None:
        """Raise for too many obstacles, before they are placed, which would take long."""
        count, most = self._map.count, self._boxes_per_cell + self._cylinders_per_cell
        seen = self.grid.least_in_sight(count, self._map.half_side_m)
        if seen > most:
            raise ValueError(
                f"world.map.count = {count} is too dense: {seen} obstacles or more are in sight from some "
                f"place, and world.boxes_per_cell + world.cylinders_per_cell = {most} are allowed; lower "
                "world.map.count"
            )

    def set_stages(self, stages: list[Difficulty], shares: dict[int, float]) -> None:
        """Set the difficulties and shares of the worlds that are made from now on."""
        if len(stages) > 1 and self.renew_steps is None:
            raise ValueError(
                "world.renew_episodes = null, so no later stage would ever begin; expected a number of "
                "1 or more; change world.renew_episodes"
            )
        self._stages = stages
        self._plan = tuple(spread(shares, self.share))

    def fill(self, seed: Tensor, *, held_out: bool) -> None:
        """Make the first worlds of this seed; held-out ones are independent of those of training."""
        self._made = []
        self._add(seed, Recipe(0, self._plan, held_out))

    def renew(self, seed: Tensor, steps: int) -> None:
        """Replace the older set of worlds if it is due after so many steps of the env."""
        if self.renew_steps is None or steps == 0 or steps % self.renew_steps:
            return
        last = self._made[-1]
        self._add(seed, Recipe(last.generation + 1, self._plan, last.held_out))

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the current worlds afterwards, whatever is filled in meanwhile."""
        made, tables = self._made, _tables(self.openings)
        kept = [table.clone() for table in (*tables, self.openings.first)]
        try:
            yield
        finally:
            for table, before in zip((*tables, self.openings.first), kept, strict=True):
                table.copy_(before)
            self._made = made

    @property
    def openings(self) -> StartTables:
        """Return the tables; always the same tensors."""
        if self._openings is None:
            raise RuntimeError("there are no worlds yet; call fill(seed) first")
        return self._openings

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the recipes of the worlds."""
        return [recipe._asdict() for recipe in self._made]

    def schema(self) -> Any:
        """Return what a state to load is compared with: recipes of the stages that there are now."""
        stages = (whole(0, len(self._stages) - 1),) * self.share
        return Each(
            {"generation": whole(0, _MOST_GENERATIONS), "stages": stages, "held_out": False}
        )

    def load_state_dict(self, state: list[dict[str, Any]], seed: Tensor) -> None:
        """Make the worlds of these recipes again."""
        self._made = []
        for recipe in state:
            self._add(
                seed, Recipe(recipe["generation"], tuple(recipe["stages"]), recipe["held_out"])
            )

    def _add(self, seed: Tensor, recipe: Recipe) -> None:
        """Make a set of worlds in place of the older one."""
        made = self._make(seed, recipe)
        if self._openings is None:
            self._openings = _allocated(made, 1 if self.renew_steps is None else 2)
        sets = self._openings.stage.shape[0] // self.share
        first = recipe.generation % sets * self.share
        place = slice(first, first + self.share)
        for table, new in zip(_tables(self._openings), _tables(made), strict=True):
            table[place].copy_(new)
        self._openings.first.fill_(first)
        self._made = [*self._made, recipe][-sets:]

    def _make(self, seed: Tensor, recipe: Recipe) -> StartTables:
        number = torch.arange(self.share, device=self._device) + recipe.generation * self.share
        stream = _HELD_OUT if recipe.held_out else _TRAINING
        key = random.mix(random.mix(random.mix(seed) ^ stream) ^ number)
        difficulties = [self._stages[stage] for stage in recipe.stages]
        counts = torch.tensor(
            [difficulty.static for difficulty in difficulties], device=self._device
        )
        moving = torch.tensor(
            [difficulty.moving for difficulty in difficulties], device=self._device
        )
        obstacles, worlds = make_worlds(
            self._map,
            self.grid,
            key,
            counts,
            boxes_per_cell=self._boxes_per_cell,
            cylinders_per_cell=self._cylinders_per_cell,
        )
        routes = self._routes.make(key, obstacles, self._num_routes)
        self._check_flyable(routes)
        scans, gaps = self._start_scans(worlds, routes)
        return StartTables(
            worlds=worlds,
            first=torch.zeros((), dtype=torch.int64, device=self._device),
            start=routes.start.movedim(0, -1).contiguous(),
            goal=routes.goal.movedim(0, -1).contiguous(),
            scans=scans,
            gaps=gaps,
            moving=moving.float(),
            stage=torch.tensor(recipe.stages, dtype=torch.float32, device=self._device),
        )

    def _check_flyable(self, routes: Routes) -> None:
        """Raise for starts and goals outside of the simulator's limits."""
        points, params = torch.cat([*routes], dim=-1).flatten(1), self._params  # (3, points)
        low_m, high_m, out_m = (
            float(most) for most in (points[2].amin(), points[2].amax(), points[:2].abs().amax())
        )
        if not params.floor_m <= low_m <= high_m <= params.ceiling_m:
            raise ValueError(
                f"starts and goals are from {low_m:.3g} to {high_m:.3g} m high; expected heights between "
                f"env.sim.floor_m = {params.floor_m:g} and env.sim.ceiling_m = {params.ceiling_m:g}; change "
                "world.routes.z_m"
            )
        if params.side_limit_m is not None and out_m > params.side_limit_m:
            raise ValueError(
                f"a start or goal is {out_m:.4g} m from the middle along x or y; expected at most "
                f"env.sim.side_limit_m = {params.side_limit_m:g}; change that or world.routes"
            )

    def _start_scans(self, worlds: Worlds, routes: Routes) -> tuple[Tensor, Tensor]:
        """Return scans (G, P, beams * rings) and distances to static obstacles (G, P) at every start."""
        count, places = routes.start.shape[1:]
        start, goal = routes.start.flatten(1), routes.goal.flatten(1)
        world = torch.arange(count, device=self._device).repeat_interleave(places)
        ahead = horizontal_unit(goal[:2] - start[:2])
        scans, gaps = [], []
        for first in range(0, count * places, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            place, params = start[:, part], self._params
            sight = in_sight(self.grid, worlds, world[part], place[0], place[1])
            ranges = cast_at(params.lidar, sight, place.unbind(0), ahead[:, part].unbind(0))
            still, scan = torch.zeros_like(place), ranges.flatten(1)
            scans.append(scan)
            gaps.append(static_gap_m(params, self.grid, sight, place, still, scan.amin(-1)))
        shape = (count, places)
        return torch.cat(scans).view(*shape, -1), torch.cat(gaps).view(shape)


def make_worlds(
    maker: Map,
    grid: Grid,
    key: Tensor,
    count: Tensor,
    *,
    boxes_per_cell: int,
    cylinders_per_cell: int,
) -> tuple[StaticObstacles, Worlds]:
    """Return the obstacles of the worlds with these keys, and their tables.

    One in very many worlds has a place with more obstacles in sight than the tables hold. It is drawn
    again from the key that follows its own, so that a run does not end because of it. Where most worlds
    are too crowded, drawing again does not help.
    """
    build = functools.partial(
        build_worlds, grid, boxes_per_cell=boxes_per_cell, cylinders_per_cell=cylinders_per_cell
    )
    obstacles = maker.make(key, count)
    for _ in range(_REDRAWS):
        try:
            return obstacles, build(*obstacles)
        except CrowdedError as error:
            if int(error.worlds.sum()) > max(1, key.shape[0] // 2):
                raise
            key = torch.where(error.worlds, random.mix(key), key)
            before, obstacles = obstacles, maker.make(key, count)
            same_boxes = torch.equal(before.boxes.x, obstacles.boxes.x)
            if same_boxes and torch.equal(before.cylinders.x, obstacles.cylinders.x):
                raise  # a map that is always the same
    return obstacles, build(*obstacles)


def _tables(openings: StartTables) -> list[Tensor]:
    """Return every tensor whose first axis is the worlds."""
    return [table for table in tree_leaves(openings) if table.dim() > 0]


def _allocated(made: StartTables, sets: int) -> StartTables:
    """Return tables with room for so many sets of worlds like these."""

    def zeros(table: Tensor) -> Tensor:
        return table.new_zeros((sets * table.shape[0], *table.shape[1:])) if table.dim() else table

    tables: StartTables = tree_map(zeros, made)
    return tables
