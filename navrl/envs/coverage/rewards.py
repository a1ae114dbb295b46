"""Reward terms of coverage: every drone's part (n, N); the team's reward is the sum of the parts."""

import torch
from torch import Tensor

from navrl.envs.core.reductions import sum_rows
from navrl.envs.core.rewards import SharedReward, Transition
from navrl.envs.coverage.sim.advance import without_each
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

# A configuration may name these.
__all__ = ["connectivity", "coverage", "height", "path_length", "quality", "throughput"]

READS = CoverageParams  # the constants that these terms need


def coverage(transition: Transition) -> Tensor:
    """Reward the share of users that are served."""
    return transition.after.service.load * (1.0 / transition.params.num_users)


def quality(transition: Transition) -> Tensor:
    """Reward the mean quality of the links of served users, 0 without any."""
    service = transition.after.service
    return service.quality / sum_rows(service.load).clamp_min(1.0)


def height(transition: Transition) -> Tensor:
    """Reward the mean height of the drones, 0 at the lowest, 1 at the highest."""
    params = transition.params
    low, high = params.height_m
    above_m = transition.after.position[2] - low
    return above_m * (1.0 / ((high - low) * params.num_drones))


def connectivity(transition: Transition) -> Tensor:
    """Reward the share of drones with a path to a station."""
    _backhaul(transition)
    routed = (transition.after.network.length > 0.0).float()
    return routed * (1.0 / transition.params.num_drones)


def throughput(transition: Transition) -> Tensor:
    """Reward the traffic that arrives at the stations, relative to one excellent link per drone."""
    backhaul, params = _backhaul(transition), transition.params
    arriving_mbps = transition.after.network.arriving_mbps
    return backhaul.throughput(params.radio, arriving_mbps, params.num_drones)


def path_length(transition: Transition) -> Tensor:
    """Reward the mean length of paths, relative to the longest allowed one; 0 without any."""
    backhaul, length = _backhaul(transition), transition.after.network.length
    routed = sum_rows((length > 0.0).float()).clamp_min(1.0)
    return length / (routed * float(backhaul.max_hops))


def _backhaul(transition: Transition) -> Backhaul:
    backhaul = transition.params.backhaul
    if not isinstance(backhaul, Backhaul):
        raise ValueError(
            "the reward has terms for paths to a ground station; env=coverage has none; expected "
            "env=coverage_relay or reward=coverage; change reward"
        )
    return backhaul


def difference(reward: SharedReward, transition: Transition) -> Tensor:
    """Return the team reward that would be lost without each drone, (n, N).

    A drone that disturbs or replaces others may have a negative one.
    """
    whole, _ = reward(transition)
    rest = without_each(transition.params, transition.after)
    never = torch.zeros_like(rest.step, dtype=torch.bool)
    without, _ = reward(Transition(transition.params, rest, rest, None, never, never))
    return whole - without.view(-1, whole.shape[0])
