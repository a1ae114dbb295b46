"""Models of a drone that follows a commanded velocity: kinematic, first order, second order.

The rigid body with its controller is in lee_quadrotor.py. Vectors are rows x, y, z of the world, (3, N).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require_number

SPEED_LIMITS = ("box", "norm")
_SLOW_MPS = 0.1


class Drone(NamedTuple):
    """The state of N drones."""

    position: Tensor  # (3, N) metres
    velocity: Tensor  # (3, N) metres per second
    inner: tuple[Tensor, ...]  # state of the model, documented there


class Factors(NamedTuple):
    """The deviation of an episode's drone from the model, drawn from the Variation."""

    gain: Tensor  # (N,) factor on the strength with which it follows a command
    lag: Tensor  # (N,) factor on its lag
    latency: Tensor  # (N,) decisions until it receives a command
    wind: Tensor  # (3, N) m/s^2


class DroneModel:
    """The base class of drone models; constants are Python numbers, so a compiled step folds them in."""

    longest_step_s: float  # of the physics; a longer time is flown in several steps

    def __post_init__(self) -> None:
        """Raise ConfigError for a number that is not above 0."""
        model: Any = self
        for field in fields(model):
            require_number(f"drone.{field.name}", getattr(self, field.name), above=0.0)

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Return the inner state of a hovering drone; heading (2, N) is the cosine and sine of its yaw."""
        return ()

    def acceleration(self, drone: Drone) -> Tensor:
        """Return the acceleration (3, N) that lasts beyond now, m/s^2, without the wind's."""
        return torch.zeros_like(drone.velocity)

    def step(self, drone: Drone, command_mps: Tensor, factors: Factors, dt_s: float) -> Drone:
        """Return the drone one physics step later."""
        raise TypeError(f"{type(self).__name__} lacks step(drone, command_mps, factors, dt_s)")


def hovering(model: DroneModel, start: Tensor, goal: Tensor) -> Drone:
    """Return drones at rest at start (3, N), with their noses towards goal (3, N)."""
    ahead = goal[:2] - start[:2]
    length = ahead.square().sum(0).sqrt()
    east = torch.stack([torch.ones_like(length), torch.zeros_like(length)])
    heading = torch.where(length > 0.0, ahead / length.clamp_min(1e-30), east)
    return Drone(start, torch.zeros_like(start), model.inner(heading))


def advance(
    model: DroneModel, drone: Drone, command_mps: Tensor, factors: Factors, decision_s: float
) -> Drone:
    """Return the drones after decision_s under the command command_mps (3, N)."""
    steps = max(1, math.ceil(decision_s / model.longest_step_s - 1e-9))
    for _ in range(steps):
        drone = model.step(drone, command_mps, factors, decision_s / steps)
    return drone


def response(
    model: DroneModel, times_s: Sequence[float], first_s: float
) -> tuple[list[float], list[float]]:
    """Return metres flown until these times, by a command of 1 m/s, and by an acceleration of 1 m/s^2.

    The model is flown from hovering, so slowly that its limits do not matter. Its answer to an acceleration
    is that of a drone that stops after first_s, less what its velocity contributes. A drone at its commanded
    velocity keeps it, so a velocity contributes the time less the answer to a command.
    """
    east = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    zero = torch.zeros((3, 1), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    factors = Factors(one, one, 0.0 * one, zero)
    slow = torch.tensor([[_SLOW_MPS], [0.0], [0.0]], dtype=torch.float64)

    def flown(drone: Drone, command: Tensor, time_s: float) -> Drone:
        return advance(model, drone, command, factors, time_s) if time_s > 0.0 else drone

    hover = Drone(zero, zero, model.inner(east))
    by_command = [float(flown(hover, slow, t).position[0]) / _SLOW_MPS for t in times_s]
    begun = flown(hover, slow, first_s)
    speed, pull = (float(vector[0]) for vector in (begun.velocity, model.acceleration(begun)))
    by_acceleration = []
    for time_s, part in zip(times_s, by_command, strict=True):
        ended = float((flown(begun, zero, time_s).position - begun.position)[0])
        left = ended - (time_s - part) * speed
        by_acceleration.append(left / pull if pull else 0.0)
    return by_command, by_acceleration


def limit_speed(velocity_mps: Tensor, limit_mps: float, kind: str) -> Tensor:
    """Limit the velocity (3, N): each component (box), or all three by one factor (norm)."""
    if kind == "box":
        return velocity_mps.clamp(-limit_mps, limit_mps)
    return _shortened(velocity_mps, limit_mps)


def closed(ratio: Tensor) -> Tensor:
    """Return 1 - exp(-ratio) for ratio >= 0, the part of a gap closed after `ratio` time constants.

    Its bits are the same in any batch size, which torch.exp does not promise.
    """
    x = ratio.clamp_max(100.0) * 0.125  # beyond 100 nothing is left, and float32 would overflow
    growth = x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))  # exp(x) - 1
    for _ in range(3):
        growth = growth * (2.0 + growth)  # of twice the x
    return growth / (1.0 + growth)


@dataclass(frozen=True, kw_only=True)
class Kinematic(DroneModel):
    """A drone that flies its command at once, in any wind; no inner state."""

    longest_step_s = math.inf

    def step(self, drone: Drone, command_mps: Tensor, factors: Factors, dt_s: float) -> Drone:
        """Fly straight on."""
        return Drone(drone.position + dt_s * command_mps, command_mps, ())


@dataclass(frozen=True, kw_only=True)
class FirstOrder(DroneModel):
    """A drone whose velocity approaches the command exponentially, integrated exactly; no inner state."""

    lag_s: float

    longest_step_s = math.inf

    def step(self, drone: Drone, command_mps: Tensor, factors: Factors, dt_s: float) -> Drone:
        """Fly along the exponential; the wind moves its limit."""
        lag_s = self.lag_s * factors.lag / factors.gain
        end = command_mps + lag_s * factors.wind
        change = closed(dt_s / lag_s) * (end - drone.velocity)
        return Drone(drone.position + dt_s * end - lag_s * change, drone.velocity + change, ())


@dataclass(frozen=True, kw_only=True)
class SecondOrder(DroneModel):
    """A drone with a lagging, limited acceleration towards the command; inner state: acceleration (3, N)."""

    gain_per_s: float  # demanded acceleration per missing speed
    lag_s: float  # of the acceleration behind the demanded one
    horizontal_limit_mps2: float
    vertical_limit_mps2: float
    longest_step_s: float

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Return no acceleration."""
        return (torch.zeros_like(heading[:1]).expand(3, -1),)

    def acceleration(self, drone: Drone) -> Tensor:
        """Return the lagging acceleration."""
        return drone.inner[0]

    def step(self, drone: Drone, command_mps: Tensor, factors: Factors, dt_s: float) -> Drone:
        """Integrate by semi-implicit Euler: acceleration, then velocity, then position."""
        (acceleration,) = drone.inner
        demand = (self.gain_per_s * factors.gain) * (command_mps - drone.velocity)
        limit = self.vertical_limit_mps2
        demand = torch.cat(
            [_shortened(demand[:2], self.horizontal_limit_mps2), demand[2:].clamp(-limit, limit)]
        )
        part = closed(dt_s / (self.lag_s * factors.lag))
        acceleration = acceleration + part * (demand - acceleration)
        velocity = drone.velocity + dt_s * (acceleration + factors.wind)
        return Drone(drone.position + dt_s * velocity, velocity, (acceleration,))


def _shortened(vector: Tensor, longest: float) -> Tensor:
    """Return the vector (rows, N), scaled down where it is longer than that."""
    length = vector.square().sum(0).sqrt()
    return vector * (longest / length.clamp_min(longest))
