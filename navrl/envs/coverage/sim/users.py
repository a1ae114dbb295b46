"""Users on the ground: their places when an episode begins, and their walks."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.core import random

PLACEMENTS = ("uniform", "hotspot", "cluster")
_HOT_SHARE, _HOT_RADIUS = 0.7, 1.0 / 3.0  # of the users, and of the side
_CLUSTERS, _CLUSTER_USERS, _CLUSTER_SIGMA = 5, 10, 0.1  # at most; one more for so many; of the side


class Users(NamedTuple):
    """Places and goals, metres; no rows of goals if users stand."""

    place: Tensor  # (2, m, N)
    goal: Tensor  # (2, m or 0, N)


def placed(placement: str, key: Tensor, *, count: int, side_m: float, walking: bool) -> Users:
    """Place `count` users for every key on a square of this side."""
    shares = random.uniform(key, random.USERS, 4 * count).view(4, count, -1)
    place = shares[:2] * side_m
    if placement == "hotspot":
        place = _hotspot(shares, side_m)
    if placement == "cluster":
        place = _clusters(shares, key, side_m)
    return Users(place, (shares[2:] * side_m) if walking else place[:, :0])


def walked(users: Users, key: Tensor, step: Tensor, *, way_m: float, side_m: float) -> Users:
    """Move users by `way_m` towards their goals; a user that arrives gets another goal."""
    ahead = users.goal - users.place
    left = ahead.square().sum(0).sqrt()
    place = users.place + ahead * (way_m / left.clamp_min(way_m))
    elsewhere = random.coarse(key, random.WALK, step, users.place.shape[1], 2)
    goal = torch.where(left <= way_m, torch.stack(elsewhere) * side_m, users.goal)
    return Users(place, goal)


def _hotspot(shares: Tensor, side_m: float) -> Tensor:
    """Place most users around the middle, denser near it, and the rest anywhere."""
    hot = int(shares.shape[1] * _HOT_SHARE)
    radius = shares[2, :hot] * (side_m * _HOT_RADIUS)
    turn = shares[3, :hot] * (2.0 * math.pi)
    around = torch.stack([radius * turn.cos(), radius * turn.sin()]) + side_m / 2.0
    return torch.cat([around, shares[:2, hot:] * side_m], 1)


def _clusters(shares: Tensor, key: Tensor, side_m: float) -> Tensor:
    """Place users around a few random centres, normally distributed, equally many around each."""
    count = shares.shape[1]
    clusters = min(_CLUSTERS, count // _CLUSTER_USERS + 1)
    centres = random.uniform(random.mix(key), random.USERS, 2 * clusters).view(2, clusters, -1)
    mine = centres[:, torch.arange(count, device=key.device) % clusters]
    return (mine * side_m + normal(shares[:2]) * (side_m * _CLUSTER_SIGMA)).clamp(0.0, side_m)


def normal(shares: Tensor) -> Tensor:
    """Return two standard normal numbers (2, ...) from two in [0, 1)."""
    length = (-2.0 * (1.0 - shares[0]).log()).sqrt()
    turn = shares[1] * (2.0 * math.pi)
    return torch.stack([length * turn.cos(), length * turn.sin()])
