"""The reward terms of drone navigation."""

import functools
import operator

import torch
from torch import Tensor

from navrl.envs.core.rewards import Transition
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState, length

# A configuration may name these.
__all__ = [
    "alive",
    "collision",
    "free_of_moving",
    "free_sight",
    "intervention",
    "jolt",
    "jolt_squared",
    "loiters",
    "off_height",
    "outside",
    "progress",
    "success",
    "time",
    "timeout",
    "towards",
]

READS = NavigationParams  # the params that these terms need
_LEAST_M = 1e-6


def towards(transition: Transition) -> Tensor:
    """Return the component of the velocity towards the goal, m/s."""
    ahead = _ahead(transition.after)
    return (transition.after.drone.velocity * ahead).sum(0) / length(ahead).clamp_min(_LEAST_M)


def progress(transition: Transition) -> Tensor:
    """Return the decrease of the distance to the goal, m; the sum is the way from start to goal."""
    return length(_ahead(transition.before)) - length(_ahead(transition.after))


def alive(transition: Transition) -> Tensor:
    """Return 1 for every decision."""
    return torch.ones_like(transition.after.decision)


def time(transition: Transition) -> Tensor:
    """Return the seconds of the decision."""
    return torch.full_like(transition.after.decision, transition.params.decision_s)


def free_sight(transition: Transition, *, scale_m: float) -> Tensor:
    """Return the mean logarithm of the lidar's ranges over scale_m."""
    ranges = transition.after.scans[0].clamp_min(_LEAST_M)
    return _mean((ranges * (1.0 / scale_m)).log())


def free_of_moving(transition: Transition, *, scale_m: float) -> Tensor:
    """Return the mean logarithm of the distances to the nearest moving obstacles over scale_m."""
    near, params = transition.events.near, transition.params
    gap = torch.where(near.present, near.centre_gap_m(), params.near_range_m)
    return _mean((gap.clamp(_LEAST_M, params.near_range_m) * (1.0 / scale_m)).log())


def jolt(transition: Transition) -> Tensor:
    """Return the change of the velocity, m/s."""
    return length(transition.after.drone.velocity - transition.before.drone.velocity)


def jolt_squared(transition: Transition) -> Tensor:
    """Return the squared change of the velocity, m^2/s^2."""
    return (transition.after.drone.velocity - transition.before.drone.velocity).square().sum(0)


def off_height(transition: Transition, *, margin_m: float) -> Tensor:
    """Return the squared distance above or below the band between the heights of start and goal."""
    state: NavigationState = transition.after
    height, start, goal = state.drone.position[2], state.start[2], state.goal[2]
    above = (height - torch.maximum(start, goal) - margin_m).clamp_min(0.0)
    below = (torch.minimum(start, goal) - margin_m - height).clamp_min(0.0)
    return (above + below).square()


def loiters(transition: Transition, *, within_m: float, speed_mps: float) -> Tensor:
    """Return the seconds spent slower than speed_mps with a moving obstacle closer than within_m."""
    near = transition.events.near
    close = (near.present & (near.centre_gap_m() < within_m)).any(0)
    slow = length(transition.after.drone.velocity) < speed_mps
    return (close & slow) * transition.params.decision_s


def success(transition: Transition) -> Tensor:
    """Return 1 when the goal is reached."""
    return (transition.after.ending.reached & ~transition.before.ending.reached).float()


def collision(transition: Transition) -> Tensor:
    """Return 1 when anything is hit."""
    ending = transition.after.ending
    return (ending.hit_static | ending.hit_moving).float()


def outside(transition: Transition) -> Tensor:
    """Return 1 when the drone leaves the world: too low, too high, too far."""
    return transition.after.ending.outside.float()


def timeout(transition: Transition) -> Tensor:
    """Return 1 when the time is up before the goal is reached."""
    return (transition.truncated & ~transition.after.ending.reached).float()


def intervention(transition: Transition) -> Tensor:
    """Return the change of the command by the shield, m/s."""
    return length(transition.events.flown - transition.events.command)


def _ahead(state: NavigationState) -> Tensor:
    return state.goal - state.drone.position


def _mean(rows: Tensor) -> Tensor:
    """Return the mean of (R, N) over R, always added in this order: that of torch depends on N."""
    count = rows.shape[0]
    while rows.shape[0] % 2 == 0:
        half = rows.shape[0] // 2
        rows = rows[:half] + rows[half:]
    return functools.reduce(operator.add, rows.unbind(0)) * (1.0 / count)
