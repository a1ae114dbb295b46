"""The state of drone navigation between two decisions, and its frames. Env axis N last."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.sim.drone import Drone, Factors
from navrl.envs.navigation.sim.moving_obstacles import MovingObstacles
from navrl.envs.navigation.sim.params import NavigationParams

_LEAST_M = 1e-6  # a goal straight above has no direction


class Tally(NamedTuple):
    """Statistics over the episode so far, (N,)."""

    time_s: Tensor  # until the goal was reached
    path_m: Tensor  # until the goal was reached
    clearance_m: Tensor  # the least so far
    jolt_mps: Tensor  # sum of the changes of velocity between decisions
    interventions: Tensor  # commands that the shield has changed
    change_mps: Tensor  # sum of these changes


class Ending(NamedTuple):
    """The causes of an end, bool (N,); at most one of the first four, whichever came first."""

    reached: Tensor
    hit_static: Tensor
    hit_moving: Tensor
    outside: Tensor
    at_goal: Tensor  # within the goal's radius now


class NavigationState(NamedTuple):
    """The state of one drone in each of N envs."""

    key: Tensor  # int64 (N,), the episode's
    decision: Tensor  # float32 (N,), decisions so far
    world: Tensor  # int32 (N,), index of the static world
    stage: Tensor  # float32 (N,), of a curriculum
    start: Tensor  # (3, N)
    goal: Tensor  # (3, N)
    drone: Drone
    obstacles: MovingObstacles
    static_gap_m: Tensor  # (N,) to the nearest static obstacle, at most the lidar's range
    scans: Tensor  # (1 + latency, beams * rings, N) metres, the newest first
    pending: Tensor  # (latency, 3, N) commands under way, the newest first
    factors: Factors
    tally: Tally
    ending: Ending


def heading(params: NavigationParams, state: NavigationState) -> Tensor:
    """Return the unit vector (2, N) of the goal frame's first axis: to the goal, from the start or now."""
    frozen = horizontal_unit(state.goal[:2] - state.start[:2])
    if params.frame == "frozen":
        return frozen
    return horizontal_unit(state.goal[:2] - state.drone.position[:2], otherwise=frozen)


def to_goal_frame(direction: Tensor, vectors: Tensor) -> Tensor:
    """Rotate world vectors (3, ..., N) to: along the heading (2, N), to its left, and up."""
    cos, sin = direction[0], direction[1]
    x, y, z = vectors.unbind(0)
    return torch.stack([x * cos + y * sin, y * cos - x * sin, z])


def to_world_frame(direction: Tensor, vectors: Tensor) -> Tensor:
    """Rotate vectors of the goal frame to the world; the inverse of to_goal_frame."""
    cos, sin = direction[0], direction[1]
    ahead, left, z = vectors.unbind(0)
    return torch.stack([ahead * cos - left * sin, ahead * sin + left * cos, z])


def horizontal_unit(way: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """Return the direction of vectors (2, N); `otherwise`, or along x, where they have no length."""
    distance = length(way)
    if otherwise is None:
        otherwise = torch.stack([torch.ones_like(distance), torch.zeros_like(distance)])
    return torch.where(distance > _LEAST_M, way / distance.clamp_min(_LEAST_M), otherwise)


def length(vectors: Tensor) -> Tensor:
    """Return the lengths of vectors (axes, ..., N)."""
    return vectors.square().sum(0).sqrt()
