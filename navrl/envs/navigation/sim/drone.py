"""Models of a drone that follows a commanded velocity: kinematic, first order, second order.

The rigid body with its controller is in lee_quadrotor.py. Vectors are rows x, y, z of the world, (3, N).
"""

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from navrl.config.checks import require_number

SPEED_LIMITS = ("box", "norm")


class Drone(NamedTuple):
    """The state of N drones."""

    position: Tensor  # (3, N) metres
    velocity: Tensor  # (3, N) metres per second
    inner: tuple[Tensor, ...]  # state of the model, documented there


class Response(Protocol):
    """The deviation of an episode's drone from the model: 1, 1 and 0 are the model itself."""

    @property
    def gain(self) -> Tensor:
        """Return the factor (N,) on the strength with which it follows a command."""

    @property
    def lag(self) -> Tensor:
        """Return the factor (N,) on its lag."""

    @property
    def wind(self) -> Tensor:
        """Return the acceleration by the wind (3, N), m/s^2."""


class Model(Protocol):
    """A drone model; its constants are Python numbers, so a compiled step folds them in."""

    @property
    def longest_step_s(self) -> float:
        """Return the longest physics step; a longer time is flown in several."""

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Return the inner state of a hovering drone; heading (2, N) is the cosine and sine of its yaw."""

    def step(self, drone: Drone, command_mps: Tensor, response: Response, dt_s: float) -> Drone:
        """Return the drone one physics step later."""


def hovering(model: Model, start: Tensor, goal: Tensor) -> Drone:
    """Return drones at rest at start (3, N), with their noses towards goal (3, N)."""
    ahead = goal[:2] - start[:2]
    length = ahead.square().sum(0).sqrt()
    east = torch.stack([torch.ones_like(length), torch.zeros_like(length)])
    heading = torch.where(length > 0.0, ahead / length.clamp_min(1e-30), east)
    return Drone(start, torch.zeros_like(start), model.inner(heading))


def advance(
    model: Model, drone: Drone, command_mps: Tensor, response: Response, decision_s: float
) -> Drone:
    """Return the drones after decision_s under the command command_mps (3, N)."""
    steps = max(1, math.ceil(decision_s / model.longest_step_s - 1e-9))
    for _ in range(steps):
        drone = model.step(drone, command_mps, response, decision_s / steps)
    return drone


def limit_speed(velocity_mps: Tensor, limit_mps: float, kind: str) -> Tensor:
    """Limit the velocity (3, N): each component (box), or all three by one factor (norm)."""
    if kind == "box":
        return velocity_mps.clamp(-limit_mps, limit_mps)
    return _shortened(velocity_mps, limit_mps)


def closed(ratio: Tensor) -> Tensor:
    """Return 1 - exp(-ratio) for ratio >= 0, the part of a gap closed after `ratio` time constants.

    Its bits are the same in any batch size, which torch.exp does not promise.
    """
    x = (
        ratio.clamp_max(100.0) * 0.125
    )  # later nothing is left, and float32 has no room for the growth
    growth = x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))  # exp(x) - 1
    for _ in range(3):
        growth = growth * (2.0 + growth)  # of twice the x
    return growth / (1.0 + growth)


def check_positive(model: Any) -> None:
    """Raise ConfigError for a model with a number that is not above 0."""
    for field in fields(model):
        require_number(f"drone.{field.name}", getattr(model, field.name), above=0.0)


@dataclass(frozen=True, kw_only=True)
class Kinematic:
    """Flies what it is told at once, in any wind. Remembers nothing."""

    longest_step_s = math.inf

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Nothing."""
        return ()

    def step(self, drone: Drone, command_mps: Tensor, response: Response, dt_s: float) -> Drone:
        """Straight on."""
        return Drone(drone.position + dt_s * command_mps, command_mps, ())


@dataclass(frozen=True, kw_only=True)
class FirstOrder:
    """The velocity approaches the command exponentially, integrated exactly. Remembers nothing."""

    lag_s: float

    longest_step_s = math.inf

    def __post_init__(self) -> None:
        """Refuse an impossible number."""
        check_positive(self)

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Nothing."""
        return ()

    def step(self, drone: Drone, command_mps: Tensor, response: Response, dt_s: float) -> Drone:
        """Along the exponential; the wind moves where it ends."""
        lag_s = self.lag_s * response.lag / response.gain
        end = command_mps + lag_s * response.wind
        change = closed(dt_s / lag_s) * (end - drone.velocity)
        return Drone(drone.position + dt_s * end - lag_s * change, drone.velocity + change, ())


@dataclass(frozen=True, kw_only=True)
class SecondOrder:
    """A limited acceleration, in proportion to what is missing, that is late. Remembers it, (3, N)."""

    gain_per_s: float  # acceleration asked for, per missing speed
    lag_s: float  # of the acceleration behind what is asked for
    horizontal_limit_mps2: float
    vertical_limit_mps2: float
    longest_step_s: float

    def __post_init__(self) -> None:
        """Refuse an impossible number."""
        check_positive(self)

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """No acceleration."""
        return (torch.zeros_like(heading[:1]).expand(3, -1),)

    def step(self, drone: Drone, command_mps: Tensor, response: Response, dt_s: float) -> Drone:
        """Semi-implicit Euler: acceleration, then velocity, then position."""
        (acceleration,) = drone.inner
        asked = (self.gain_per_s * response.gain) * (command_mps - drone.velocity)
        limit = self.vertical_limit_mps2
        asked = torch.cat(
            [_shortened(asked[:2], self.horizontal_limit_mps2), asked[2:].clamp(-limit, limit)]
        )
        part = closed(dt_s / (self.lag_s * response.lag))
        acceleration = acceleration + part * (asked - acceleration)
        velocity = drone.velocity + dt_s * (acceleration + response.wind)
        return Drone(drone.position + dt_s * velocity, velocity, (acceleration,))


def _shortened(vector: Tensor, longest: float) -> Tensor:
    """The vector (rows, N), no longer than that."""
    length = vector.square().sum(0).sqrt()
    return vector * (longest / length.clamp_min(longest))
