"""Observations of drones that serve users, in three layouts, and the state for a centralised critic.

In an env with ground stations every drone also observes its role (none, base station, relay), its links to
the stations, and the length of its path to one.
"""

from typing import Protocol

import torch
from torch import Tensor

from navrl.config.checks import require_number, require_whole
from navrl.envs.coverage.sim.advance import CoverageState, serving
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

# A configuration may name these.
__all__ = ["Histogram", "Raw", "Relative", "ServiceGrid"]

# Parts are multiples of its inverse squared, so that sums of them are exact in any order.
_EXACT = 256.0
_FEW_CELLS = 10  # along a side: adding to all of more takes longer than finding the four

READS = CoverageParams  # the constants that these observations need
_AXES = 3
_ROLES = 3


class CoverageObservation(Protocol):
    """A layout of observations: every leaf in its shape and then N, for all drones at once."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Determine the shapes; called once, before the first rows."""

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """Return the observations of all drones, (n, ..., N)."""

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Return the state for a centralised critic, (state_size, N)."""


class Raw:
    """Places in metres, as in the original: own, users, all drones, and the time."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        self.state_size = _AXES * params.num_drones + 2 * params.num_users + 1
        self.leaves = {"places": (self.state_size + _AXES + network_size(params),)}

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """Return the leaf places."""
        users = _flat(state.users.place)
        rest = torch.cat([users, _flat(state.position), _time(params, state)])
        shared = rest.unsqueeze(0).expand(params.num_drones, -1, -1)
        own = state.position.transpose(0, 1)
        return {"places": torch.cat([own, shared, *network_rows(params, state)], 1)}

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Return drones, users and the time."""
        places = [_flat(state.position), _flat(state.users.place)]
        return torch.cat([*places, _time(params, state)])


class Relative:
    """The own place and two sets relative to it: the users and the other drones, in no order."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        mates = max(1, params.num_drones - 1)  # a set has a row at least
        self.leaves = {
            "own": (_AXES + 1 + network_size(params),),
            "users": (params.num_users, 2),
            "users_mask": (params.num_users,),
            "mates": (mates, _AXES),
            "mates_mask": (mates,),
        }
        self.state_size = _AXES * params.num_drones + 2 * params.num_users + 1

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """Return the leaves."""
        scale, position = 1.0 / params.side_m, state.position.transpose(0, 1)
        users = state.users.place.transpose(0, 1).unsqueeze(0) - position[:, :2].unsqueeze(1)
        mates = _others(position) - position.unsqueeze(1)
        present = torch.ones_like(users[:, :, 0], dtype=torch.bool)
        alone = params.num_drones == 1
        return {
            "own": _own(params, state),
            "users": users * scale,
            "users_mask": present,
            "mates": mates * scale,
            "mates_mask": torch.full_like(mates[:, :, 0], not alone, dtype=torch.bool),
        }

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Return drones and users in parts of the side, and the time."""
        scale = 1.0 / params.side_m
        places = [_flat(state.position) * scale, _flat(state.users.place) * scale]
        return torch.cat([*places, _time(params, state)])


class Histogram:
    """The own place, and soft counts of users and of drones on a grid around it."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def __init__(self, *, cells: int, cell_m: float) -> None:
        require_whole("observation.cells", cells, 1)
        require_number("observation.cell_m", cell_m, above=0.0)
        self.cells, self.cell_m = cells, cell_m

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        cells = self.cells**2
        self.leaves = {
            "own": (_AXES + 1 + network_size(params),),
            "users": (cells,),
            "mates": (cells,),
        }
        self.state_size = _AXES * params.num_drones + cells + 1

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """Return the leaves."""
        ground = state.position[:2]
        users = state.users.place.unsqueeze(1) - ground.unsqueeze(2)
        mates = ground.unsqueeze(1) - ground.unsqueeze(2)
        # Of all drones, itself in the middle included, which is the same for every drone.
        return {
            "own": _own(params, state),
            "users": soft_counts(users, self.cells, self.cell_m) * (1.0 / params.num_users),
            "mates": soft_counts(mates, self.cells, self.cell_m) * (1.0 / params.num_drones),
        }

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Return drones in parts of the side, soft counts of users on a grid of the square, and the time."""
        from_middle = state.users.place.unsqueeze(1) - 0.5 * params.side_m
        counts = soft_counts(from_middle, self.cells, params.side_m / self.cells)[0]
        drones = _flat(state.position) * (1.0 / params.side_m)
        return torch.cat([drones, counts * (1.0 / params.num_users), _time(params, state)])


class ServiceGrid(Histogram):
    """As Histogram, with unserved users on a grid of their own, and every drone's load and quality."""

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Determine the shapes."""
        super().prepare(params, device)
        (own,), cells = self.leaves["own"], self.cells**2
        self.leaves |= {"own": (own + 2,), "unserved": (cells,)}
        self.state_size += cells + 2 * params.num_drones

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """Return the leaves."""
        leaves = super().rows(params, state)
        apart_m = state.users.place.unsqueeze(1) - state.position[:2].unsqueeze(2)
        counts = soft_counts(apart_m, self.cells, self.cell_m, _unserved(params, state))
        own = torch.cat([leaves["own"], _service(params, state).transpose(0, 1)], 1)
        return leaves | {"own": own, "unserved": counts * (1.0 / params.num_users)}

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Return the same with the users that nobody serves, and loads and qualities."""
        from_middle = state.users.place.unsqueeze(1) - 0.5 * params.side_m
        cell_m, unserved = params.side_m / self.cells, _unserved(params, state)
        counts = soft_counts(from_middle, self.cells, cell_m, unserved)[0]
        rows = [counts * (1.0 / params.num_users), _service(params, state).flatten(0, 1)]
        return torch.cat([super().state_rows(params, state), *rows])


def _unserved(params: CoverageParams, state: CoverageState) -> Tensor:
    """Return 1 for every user without a drone, (m, N)."""
    return (serving(params, state) < 0).float()


def _service(params: CoverageParams, state: CoverageState) -> Tensor:
    """Return the load and the mean quality of every drone, 0 to 1, (2, n, N)."""
    load, quality = state.service.load, state.service.quality
    return torch.stack([load * (1.0 / params.radio.max_users), quality / load.clamp_min(1.0)])


def soft_counts(apart_m: Tensor, cells: int, cell_m: float, weight: Tensor | None = None) -> Tensor:
    """Count m positions in the cells of a grid: (2, n, m, N) -> (n, cells * cells, N).

    A position between the middles of cells counts in part for each of them, one outside for the last cell.
    `weight` (m, N) is how often each counts.
    """
    middle = 0.5 * (cells - 1)
    place = (apart_m * (1.0 / cell_m)).clamp(-middle, middle) + middle
    place = (place * _EXACT).round() * (1.0 / _EXACT)
    add = _add_to_all if torch.compiler.is_compiling() and cells <= _FEW_CELLS else _add_to_four
    return add(place, cells, weight)


def _add_to_all(place: Tensor, cells: int, weight: Tensor | None) -> Tensor:
    """Add a part of every position, mostly 0, to every cell: compiled to one loop without addresses."""
    columns, rows = (
        [(1.0 - (along - middle).abs()).clamp_min(0.0) for middle in range(cells)]
        for along in place
    )
    if weight is not None:
        columns = [part * weight for part in columns]
    return torch.stack([(x * y).sum(1) for x in columns for y in rows], 1)


def _add_to_four(place: Tensor, cells: int, weight: Tensor | None) -> Tensor:
    """Add the parts of every position to the four cells around it."""
    first = place.floor().clamp(0.0, max(0, cells - 2))
    x, y = place - first  # (n, m, N), fraction of a cell
    column, row = first.to(torch.int64)
    here, step = column * cells + row, min(1, cells - 1)
    cell = torch.cat([here, here + step, here + cells * step, here + (cells + 1) * step], 1)
    part = torch.cat([(1.0 - x) * (1.0 - y), (1.0 - x) * y, x * (1.0 - y), x * y], 1)
    if weight is not None:
        part = part * weight.repeat(4, 1)
    nothing = part.new_zeros(part.shape[0], cells**2, part.shape[-1])
    return nothing.scatter_add(1, cell, part)


def network_size(params: CoverageParams) -> int:
    """Return how many numbers describe the links of a drone to the ground."""
    stations = len(params.backhaul.stations)
    return _ROLES + stations + 1 if stations else 0


def network_rows(params: CoverageParams, state: CoverageState) -> list[Tensor]:
    """Return role, links to stations and length of the path, (n, network_size, N); none without stations."""
    if not isinstance(params.backhaul, Backhaul):
        return []
    direct, length = state.network.direct, state.network.length
    serves = state.service.load > 0.0
    linked = direct.any(0)
    roles = torch.stack([~serves & ~linked, serves, ~serves & linked], 1)
    near = (length * (1.0 / params.backhaul.max_hops)).clamp_max(1.0).unsqueeze(1)
    return [torch.cat([roles.float(), direct.transpose(0, 1).float(), near], 1)]


def _own(params: CoverageParams, state: CoverageState) -> Tensor:
    """Return place from -1 to 1, time, and the network rows, (n, features, N)."""
    low, high = params.height_m
    x, y, z = state.position
    place = [x / params.side_m, y / params.side_m, (z - low) / (high - low)]
    rows = torch.stack([2.0 * share - 1.0 for share in place], 1)
    time = _time(params, state).unsqueeze(0).expand(params.num_drones, -1, -1)
    return torch.cat([rows, time, *network_rows(params, state)], 1)


def _time(params: CoverageParams, state: CoverageState) -> Tensor:
    """Return the part of the episode that is over, (1, N)."""
    return (state.step.float() * (1.0 / params.horizon)).unsqueeze(0)


def _flat(places: Tensor) -> Tensor:
    """Reshape (axes, count, N) to (count * axes, N)."""
    return places.transpose(0, 1).flatten(0, 1)


def _others(position: Tensor) -> Tensor:
    """Return the places (n, n - 1, 3, N) of all other drones, next numbers first; its own if it is alone."""
    drones = position.shape[0]
    mates = [position.roll(-shift, 0) for shift in range(1, drones)] or [position]
    return torch.stack(mates, 1)
