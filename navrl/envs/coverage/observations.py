"""What drones that serve users are told, in three ways, and what a centralised critic is told.

Where drones relay to stations, each is also told its role (nothing, base station, relay), to which stations
it has a link, and how long its path to one is.
"""

from typing import Protocol

import torch
from torch import Tensor

from navrl.envs.coverage.sim.advance import CoverageState
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

_EXACT = (
    256.0  # parts are multiples of its inverse squared, so that sums of them are exact in any order
)

READS = CoverageParams  # the constants that these observations need
_AXES = 3
_ROLES = 3


class CoverageObservation(Protocol):
    """One kind of observation: every leaf in its shape and then N, for all drones at once."""

    leaves: dict[str, tuple[int, ...]]
    state_size: int

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Settle the shapes; once, before the first rows."""

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """What the drones are told, (n, ..., N)."""

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """What a centralised critic is told, (state_size, N)."""


class Raw:
    """Everybody's place in metres, as in the original: own, users, all drones, the time."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.state_size = 0

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Settle the shapes."""
        self.state_size = _AXES * params.num_drones + 2 * params.num_users + 1
        self.leaves = {"told": (self.state_size + _AXES + network_size(params),)}

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """The leaf told."""
        users = _by_body(state.users.place)
        rest = torch.cat([users, _by_body(state.position), _time(params, state)])
        everybody = rest.unsqueeze(0).expand(params.num_drones, -1, -1)
        own = state.position.transpose(0, 1)
        return {"told": torch.cat([own, everybody, *network_rows(params, state)], 1)}

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Drones, users, the time."""
        places = [_by_body(state.position), _by_body(state.users.place)]
        return torch.cat([*places, _time(params, state)])


class Relative:
    """Its own place and two sets: the users and the other drones, seen from it; nobody has a number."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.state_size = 0

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Settle the shapes."""
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
        """The leaves."""
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
        """Drones and users in parts of the side, and the time."""
        scale = 1.0 / params.side_m
        places = [_by_body(state.position) * scale, _by_body(state.users.place) * scale]
        return torch.cat([*places, _time(params, state)])


class Histogram:
    """Its own place, and soft counts of users and of the other drones on a grid around it."""

    def __init__(self, *, cells: int, cell_m: float) -> None:
        if cells < 1 or cell_m <= 0.0:
            raise ValueError(
                f"observation.cells = {cells} and cell_m = {cell_m}; expected 1 or more, more than 0; "
                "change observation.cells or observation.cell_m"
            )
        self.cells, self.cell_m = cells, cell_m
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.state_size = 0

    def prepare(self, params: CoverageParams, device: torch.device | str) -> None:
        """Settle the shapes."""
        cells = self.cells**2
        self.leaves = {
            "own": (_AXES + 1 + network_size(params),),
            "users": (cells,),
            "mates": (cells,),
        }
        self.state_size = _AXES * params.num_drones + cells + 1

    def rows(self, params: CoverageParams, state: CoverageState) -> dict[str, Tensor]:
        """The leaves."""
        ground = state.position[:2]
        users = state.users.place.unsqueeze(1) - ground.unsqueeze(2)
        mates = ground.unsqueeze(1) - ground.unsqueeze(2)
        # Of all drones, itself in the middle too: what everybody has in common teaches nobody anything.
        return {
            "own": _own(params, state),
            "users": soft_counts(users, self.cells, self.cell_m) * (1.0 / params.num_users),
            "mates": soft_counts(mates, self.cells, self.cell_m) * (1.0 / params.num_drones),
        }

    def state_rows(self, params: CoverageParams, state: CoverageState) -> Tensor:
        """Drones in parts of the side, soft counts of users on a grid over the square, and the time."""
        from_middle = state.users.place.unsqueeze(1) - 0.5 * params.side_m
        counts = soft_counts(from_middle, self.cells, params.side_m / self.cells)[0]
        drones = _by_body(state.position) * (1.0 / params.side_m)
        return torch.cat([drones, counts * (1.0 / params.num_users), _time(params, state)])


def soft_counts(apart_m: Tensor, cells: int, cell_m: float) -> Tensor:
    """How many of m lie in each cell of a grid (2, n, m, N) -> (n, cells * cells, N).

    Who lies between the middles of cells counts in part for each of them, and who lies outside for the last.
    """
    middle = 0.5 * (cells - 1)
    place = (apart_m * (1.0 / cell_m)).clamp(-middle, middle) + middle
    first = place.floor().clamp(0.0, max(0, cells - 2))
    x, y = ((place - first) * _EXACT).round() * (1.0 / _EXACT)  # (n, m, N), how far to the next
    column, row = first.to(torch.int64)
    here, step = column * cells + row, min(1, cells - 1)
    cell = torch.cat([here, here + step, here + cells * step, here + (cells + 1) * step], 1)
    part = torch.cat([(1.0 - x) * (1.0 - y), (1.0 - x) * y, x * (1.0 - y), x * y], 1)
    nothing = part.new_zeros(part.shape[0], cells**2, part.shape[-1])
    return nothing.scatter_add(1, cell, part)


def network_size(params: CoverageParams) -> int:
    """How many numbers tell a drone of its links to the ground."""
    stations = len(params.backhaul.stations)
    return _ROLES + stations + 1 if stations else 0


def network_rows(params: CoverageParams, state: CoverageState) -> list[Tensor]:
    """Role, links to stations, and the length of the path, (n, network_size, N); none without stations."""
    if not isinstance(params.backhaul, Backhaul):
        return []
    direct, length = state.network.direct, state.network.length
    serves = state.service.load > 0.0
    linked = direct.any(0)
    roles = torch.stack([~serves & ~linked, serves, ~serves & linked], 1)
    near = (length * (1.0 / params.backhaul.max_hops)).clamp_max(1.0).unsqueeze(1)
    return [torch.cat([roles.float(), direct.transpose(0, 1).float(), near], 1)]


def _own(params: CoverageParams, state: CoverageState) -> Tensor:
    """Place from -1 to 1, time, and what network_rows says, (n, features, N)."""
    low, high = params.height_m
    x, y, z = state.position
    place = [x / params.side_m, y / params.side_m, (z - low) / (high - low)]
    rows = torch.stack([2.0 * share - 1.0 for share in place], 1)
    time = _time(params, state).unsqueeze(0).expand(params.num_drones, -1, -1)
    return torch.cat([rows, time, *network_rows(params, state)], 1)


def _time(params: CoverageParams, state: CoverageState) -> Tensor:
    """The part of the episode that is over, (1, N)."""
    return (state.step.float() * (1.0 / params.horizon)).unsqueeze(0)


def _by_body(places: Tensor) -> Tensor:
    """(axes, bodies, N) to (bodies * axes, N), one body after the other."""
    return places.transpose(0, 1).flatten(0, 1)


def _others(position: Tensor) -> Tensor:
    """Of every drone the places (n, n - 1, 3, N) of those after it, then of those before; itself if alone."""
    drones = position.shape[0]
    mates = [position.roll(-shift, 0) for shift in range(1, drones)] or [position]
    return torch.stack(mates, 1)
