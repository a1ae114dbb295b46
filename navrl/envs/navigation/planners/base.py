"""The base class of planners: pure functions of the drone's perception, with memory for each env."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.sim.advance import near_obstacles, sensed
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState, heading, length

_LEAST_M = 1e-6  # nearer, the goal is in no direction


class Perception(NamedTuple):
    """The drone's own state and its sensors, in the world's frame; env axis last."""

    position: Tensor  # (3, N) metres
    velocity: Tensor  # (3, N) m/s
    acceleration: Tensor  # (3, N) m/s^2
    goal: Tensor  # (3, N) metres
    heading: Tensor  # (2, N) cosine and sine of beam 0
    ranges: Tensor  # (beams, rings, N) metres; the lidar's range where nothing is
    near_offset: Tensor  # (3, M, N) from the drone to the moving obstacles
    near_velocity: Tensor  # (3, M, N)
    near_radius_m: Tensor  # (M, N)
    near_half_height_m: Tensor  # (M, N)
    near_upright: Tensor  # (M, N) bool: a column, always level with the drone
    near_present: Tensor  # (M, N) bool


def perceive(params: NavigationParams, state: NavigationState) -> Perception:
    """Return what the policy observes too: the scan with noise and delay, and the nearest obstacles."""
    near = near_obstacles(params, state)
    return Perception(
        position=state.drone.position,
        velocity=state.drone.velocity,
        acceleration=params.drone.acceleration(state.drone),
        goal=state.goal,
        heading=heading(params, state),
        ranges=sensed(params, state).view(params.lidar.beams, params.lidar.rings, -1),
        near_offset=near.offset,
        near_velocity=near.velocity,
        near_radius_m=near.radius_m,
        near_half_height_m=near.half_height_m,
        near_upright=near.upright,
        near_present=near.present,
    )


def straight_to_goal(perception: Perception, speed_mps: float, slowing_per_s: float) -> Tensor:
    """Return the velocity (3, N) to the goal: full speed, near it in proportion to the distance."""
    way = perception.goal - perception.position
    distance = length(way)
    return way * ((distance * slowing_per_s).clamp_max(speed_mps) / distance.clamp_min(_LEAST_M))


class Planner:
    """A pilot that commands velocities; memory is a tuple of (..., N) tensors, reset with every episode."""

    lidar: Lidar

    def prepare(self, lidar: Lidar) -> None:
        """Set the lidar's geometry; called once, before the first episode."""
        self.lidar = lidar

    def initial(self, count: int, device: torch.device | str) -> tuple[Tensor, ...]:
        """Return the memory at the start of `count` episodes."""
        return ()

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the commanded velocity (3, N), m/s, and the memory after it."""
        raise TypeError(f"{type(self).__name__} lacks act(perception, memory) -> (command, memory)")
