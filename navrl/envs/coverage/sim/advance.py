"""The simulator of drones as base stations: motion, links to users, and the network to the ground.

Drones are numbered along n, users along m; the env axis N is last everywhere.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from navrl.envs.core import random
from navrl.envs.core.reductions import sum_rows
from navrl.envs.coverage.sim.backhaul import Network
from navrl.envs.coverage.sim.params import CoverageParams
from navrl.envs.coverage.sim.radio import (
    SHADOW_PARTS,
    associate,
    capacity_mbps,
    of_each_drone,
    quality,
    received_mw,
    sinr,
)
from navrl.envs.coverage.sim.users import Users, normal, placed, walked

_AXES = 3


class Service(NamedTuple):
    """The service of every drone, fields (n, N)."""

    load: Tensor  # users
    quality: Tensor  # the sum over its users' links, each 0 to 1
    rate_mbps: Tensor  # the sum of the capacities, as if every link had the whole band


class CoverageState(NamedTuple):
    """Positions of drones and users, and the resulting service."""

    position: Tensor  # (3, n, N) metres
    users: Users
    shadow: Tensor  # (2, n, m, N) standard normal, of this episode; no rows without shadowing
    service: Service
    network: Network
    step: Tensor  # (N,) int32
    key: Tensor  # (N,) int64, of this episode


def initial_state(params: CoverageParams, key: Tensor) -> CoverageState:
    """Return drones and users at random places."""
    shares = random.uniform(key, random.SCENARIO, _AXES * params.num_drones)
    x, y, z = shares.view(_AXES, params.num_drones, -1)
    low, high = params.height_m
    position = torch.stack([x * params.side_m, y * params.side_m, low + z * (high - low)])
    users = placed(
        params.users, key, count=params.num_users, side_m=params.side_m, walking=params.walking
    )
    return served(params, position, users, _shadow(params, key), torch.zeros_like(key).int(), key)


def advance(params: CoverageParams, state: CoverageState, action: Tensor) -> CoverageState:
    """Fly the drones by action (3, n, N) in parts of their highest speed, within the box."""
    way_m = action.clamp(-1.0, 1.0) * (params.max_speed_mps * params.step_s)
    x, y, z = (state.position + way_m).unbind()
    side_m = params.side_m
    position = torch.stack([x.clamp(0.0, side_m), y.clamp(0.0, side_m), z.clamp(*params.height_m)])
    users = state.users
    if params.walking:
        way = params.user_speed_mps * params.step_s
        users = walked(users, state.key, state.step, way_m=way, side_m=side_m)
    return served(params, position, users, state.shadow, state.step + 1, state.key)


def served(
    params: CoverageParams,
    position: Tensor,
    users: Users,
    shadow: Tensor,
    step: Tensor,
    key: Tensor,
) -> CoverageState:
    """Return the state with drones and users there; the service depends on places alone."""
    radio, drones = params.radio, position.shape[1]
    links = links_sinr(params, position, users.place, shadow)
    server, level = associate(links, min_sinr_db=radio.min_sinr_db, max_users=radio.max_users)
    load = of_each_drone(server, drones, (server >= 0).float())
    good = of_each_drone(server, drones, quality(radio, level))
    rate_mbps = of_each_drone(server, drones, capacity_mbps(radio, level))
    network = params.backhaul.connect(radio, position, load, rate_mbps)
    return CoverageState(
        position, users, shadow, Service(load, good, rate_mbps), network, step, key
    )


def without_each(params: CoverageParams, state: CoverageState) -> CoverageState:
    """Return the state without one of the drones: without drone i it is env i N + e of (n N)."""
    drones = state.position.shape[1]
    number = torch.arange(drones, device=state.position.device).unsqueeze(1)
    other = torch.arange(drones - 1, device=state.position.device)
    mates = other + (other >= number).to(other.dtype)  # (n, n - 1)
    again = lambda rows: torch.cat([rows] * drones, -1)  # noqa: E731
    users, step, key = pytree.tree_map(again, (state.users, state.step, state.key))
    position = state.position[:, mates].transpose(1, 2).flatten(2)
    shadow = state.shadow[:, mates].permute(0, 2, 3, 1, 4).flatten(3)
    return served(params, position, users, shadow, step, key)


def links_sinr(params: CoverageParams, position: Tensor, place: Tensor, shadow: Tensor) -> Tensor:
    """Return signal to interference and noise of every drone at every user, a ratio, (n, m, N)."""
    apart = (position[:2].unsqueeze(2) - place.unsqueeze(1)).square()
    level_m2, height_m = apart[0] + apart[1], position[2].unsqueeze(1)
    square_m2 = level_m2 + height_m.square()
    power_mw = received_mw(params.radio, square_m2, level_m2, height_m, shadow)
    return sinr(power_mw, params.radio.noise_dbm)


def connected(state: CoverageState) -> Tensor:
    """Return the number of served users, (N,)."""
    return sum_rows(state.service.load)


def serving(params: CoverageParams, state: CoverageState) -> Tensor:
    """Return the number of the drone that serves each user, -1: none, int32 (m, N)."""
    radio = params.radio
    links = links_sinr(params, state.position, state.users.place, state.shadow)
    return associate(links, min_sinr_db=radio.min_sinr_db, max_users=radio.max_users).server


def _shadow(params: CoverageParams, key: Tensor) -> Tensor:
    """Draw the shadowing of every link for an episode."""
    shape = (SHADOW_PARTS, params.num_drones, params.num_users)
    if not params.radio.shadowed:
        return torch.zeros(0, *shape[1:], key.shape[0], device=key.device)
    links = params.num_drones * params.num_users
    shares = random.uniform(key, random.SHADOW, SHADOW_PARTS * links)
    return normal(shares.view(*shape, -1))
