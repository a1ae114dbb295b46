"""What is paid for serving users: the part of every drone (n, N), which add up to the team's."""

from torch import Tensor

from navrl.envs.core.reductions import added
from navrl.envs.core.rewards import Transition
from navrl.envs.coverage.sim.backhaul import Backhaul
from navrl.envs.coverage.sim.params import CoverageParams

READS = CoverageParams  # what an env has that these terms read


def coverage(transition: Transition) -> Tensor:
    """Users that are served, of all."""
    return transition.after.service.load * (1.0 / transition.params.num_users)


def quality(transition: Transition) -> Tensor:
    """How good the links of the served users are on average, 0 without any."""
    service = transition.after.service
    return service.quality / added(service.load).clamp_min(1.0)


def height(transition: Transition) -> Tensor:
    """How high the drones are on average, 0 at the lowest, 1 at the highest."""
    params = transition.params
    low, high = params.height_m
    above_m = transition.after.position[2] - low
    return above_m * (1.0 / ((high - low) * params.num_drones))


def connectivity(transition: Transition) -> Tensor:
    """Drones with a path to a station, of all."""
    _backhaul(transition)
    routed = (transition.after.network.length > 0.0).float()
    return routed * (1.0 / transition.params.num_drones)


def throughput(transition: Transition) -> Tensor:
    """What arrives at the stations, of what one excellent link a drone would carry."""
    backhaul, params = _backhaul(transition), transition.params
    arriving_mbps = transition.after.network.arriving_mbps
    return backhaul.throughput(params.radio, arriving_mbps, params.num_drones)


def path_length(transition: Transition) -> Tensor:
    """How long paths are on average, of the most drones that one may have; 0 without any."""
    backhaul, length = _backhaul(transition), transition.after.network.length
    routed = added((length > 0.0).float()).clamp_min(1.0)
    return length / (routed * float(backhaul.max_hops))


def _backhaul(transition: Transition) -> Backhaul:
    backhaul = transition.params.backhaul
    if not isinstance(backhaul, Backhaul):
        raise ValueError(
            "the reward pays for a path to a ground station; env=coverage has none; expected "
            "env=coverage_relay or reward=coverage; change reward"
        )
    return backhaul
