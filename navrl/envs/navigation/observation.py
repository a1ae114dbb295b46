"""Observations of a drone: the way to the goal, the lidar scan, and the nearest moving obstacles."""

from collections.abc import Sequence

import torch
from torch import Tensor

from navrl.envs.navigation.sim.advance import sensed
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState, heading, length, to_goal_frame

# A configuration may name these.
__all__ = ["GoalFrameObservation", "NavRLObservation"]

AXES = ("ahead", "left", "up")  # of the goal frame
_LEAST_M = 1e-6
_WIDTH_STEP_M = 0.25  # between the width classes of the original


class NavigationObservation:
    """The base class of observations: the shapes of the leaves."""

    state_size: int
    obstacle_size: int

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[int, ...]] = {}
        self.names: dict[str, Sequence[str]] = {}  # of columns, with units

    def prepare(self, params: NavigationParams, device: torch.device | str) -> None:
        """Set the shapes of the leaves."""
        self.leaves = {
            "state": (self.state_size,),
            "lidar": (1, params.lidar.beams, params.lidar.rings),
            "obstacles": (params.near_count, self.obstacle_size),
            "obstacles_mask": (params.near_count,),
        }
        self.names = self.columns(params)

    def columns(self, params: NavigationParams) -> dict[str, Sequence[str]]:
        """Return the names of the columns of every leaf."""
        raise TypeError(f"{type(self).__name__} lacks columns(params) -> names")

    def rows(
        self, params: NavigationParams, state: NavigationState, near: NearObstacles
    ) -> dict[str, Tensor]:
        """Return every leaf in its shape and then N."""
        raise TypeError(f"{type(self).__name__} lacks rows(params, state, near) -> leaves")


class GoalFrameObservation(NavigationObservation):
    """The default observation: in the goal frame, scaled to about one, with relative speeds of obstacles."""

    state_size, obstacle_size = 10, 13

    def columns(self, params: NavigationParams) -> dict[str, Sequence[str]]:
        """Return the names of the columns of every leaf."""
        near, speed = f"[{params.near_range_m:g} m]", f"[{params.speed_limit_mps:g} m/s]"
        return {
            "state": [
                *(f"direction to the goal {axis}" for axis in AXES),
                "distance to the goal [ln(1 + m) / 4]",
                f"height to the goal, clipped to 1 {near}",
                *(f"velocity {axis} {speed}" for axis in AXES),
                f"height above the floor {near}",
                f"height below the ceiling {near}",
            ],
            "lidar": [f"range of the lidar less the measured one [{params.lidar.range_m:g} m]"],
            "obstacles": [
                *(f"direction {axis}" for axis in AXES),
                f"distance {near}",
                f"gap {near}",
                *(f"velocity {axis} {speed}" for axis in AXES),
                *(f"velocity {axis} less the own {speed}" for axis in AXES),
                "radius [1 m]",
                "is an upright column",
            ],
        }

    def rows(
        self, params: NavigationParams, state: NavigationState, near: NearObstacles
    ) -> dict[str, Tensor]:
        """Return every leaf in its shape and then N."""
        direction = heading(params, state)
        ahead = to_goal_frame(direction, state.goal - state.drone.position)
        velocity = to_goal_frame(direction, state.drone.velocity) / params.speed_limit_mps
        distance = length(ahead)
        height = state.drone.position[2]
        own_state = torch.cat(
            [
                ahead / distance.clamp_min(_LEAST_M),
                torch.log1p(distance).unsqueeze(0) / 4.0,
                (ahead / params.near_range_m).clamp(-1.0, 1.0)[2:],
                velocity,
                (height - params.floor_m).unsqueeze(0) / params.near_range_m,
                (params.ceiling_m - height).unsqueeze(0) / params.near_range_m,
            ]
        )
        return {
            "state": own_state,
            "lidar": _scan(params, state) / params.lidar.range_m,
            "obstacles": self._obstacles(params, state, near, direction),
            "obstacles_mask": near.present,
        }

    @staticmethod
    def _obstacles(
        params: NavigationParams, state: NavigationState, near: NearObstacles, direction: Tensor
    ) -> Tensor:
        offset = to_goal_frame(direction, _level(near))
        distance = length(offset)
        speed = to_goal_frame(direction, near.velocity) / params.speed_limit_mps
        own = to_goal_frame(direction, state.drone.velocity) / params.speed_limit_mps
        gap = near.gap_m() / params.near_range_m
        rows = torch.cat(
            [
                offset / distance.clamp_min(_LEAST_M),
                distance.unsqueeze(0) / params.near_range_m,
                gap.unsqueeze(0),
                speed,
                speed - own.unsqueeze(1),
                near.radius_m.unsqueeze(0),
                near.upright.float().unsqueeze(0),
            ]
        )
        return torch.where(near.present, rows, 0.0).movedim(0, 1)


class NavRLObservation(NavigationObservation):
    """The published layout of NavRL, without its defects: metres, and absolute speeds."""

    state_size, obstacle_size = 8, 10

    def columns(self, params: NavigationParams) -> dict[str, Sequence[str]]:
        """Return the names of the columns of every leaf."""
        level = ["level distance [1 m]", "height [1 m]"]
        return {
            "state": [
                *(f"direction to the goal {axis}" for axis in AXES),
                *level,
                *(f"velocity {axis} [1 m/s]" for axis in AXES),
            ],
            "lidar": ["range of the lidar less the measured one [1 m]"],
            "obstacles": [
                *(f"direction {axis}" for axis in AXES),
                *level,
                *(f"velocity {axis} [1 m/s]" for axis in AXES),
                "class of width",
                "is a floating block",
            ],
        }

    def rows(
        self, params: NavigationParams, state: NavigationState, near: NearObstacles
    ) -> dict[str, Tensor]:
        """Return every leaf in its shape and then N."""
        direction = heading(params, state)
        ahead = state.goal - state.drone.position
        own_state = [
            to_goal_frame(direction, ahead / length(ahead).clamp_min(_LEAST_M)),
            length(ahead[:2]).unsqueeze(0),
            ahead[2:],
            to_goal_frame(direction, state.drone.velocity),
        ]
        offset = _level(near)
        rows = [
            to_goal_frame(direction, offset / length(offset).clamp_min(_LEAST_M)),
            length(offset[:2]).unsqueeze(0),
            offset[2:],
            to_goal_frame(direction, near.velocity),
            (near.radius_m * 2.0 / _WIDTH_STEP_M - 1.0).unsqueeze(0),
            (~near.upright).float().unsqueeze(0),
        ]
        return {
            "state": torch.cat(own_state),
            "lidar": _scan(params, state),
            "obstacles": torch.where(near.present, torch.cat(rows), 0.0).movedim(0, 1),
            "obstacles_mask": near.present,
        }


def _scan(params: NavigationParams, state: NavigationState) -> Tensor:
    """Return the lidar's range less that of every beam, 0 where it is free: (1, beams, rings, N)."""
    ranges = sensed(params, state)
    shape = (1, params.lidar.beams, params.lidar.rings, ranges.shape[-1])
    return (params.lidar.range_m - ranges).reshape(shape)


def _level(near: NearObstacles) -> Tensor:
    """Return the offsets (3, M, N) to the obstacles; dz is 0 for a column, which is always level."""
    x, y, z = near.offset.unbind(0)
    return torch.stack([x, y, torch.where(near.upright, 0.0, z)])
