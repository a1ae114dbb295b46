"""A quadrotor as a rigid body: four rotors with lag, and a geometric velocity controller.

The controller tilts the thrust to where the wanted acceleration is (Lee, Leok, McClamroch 2010) and holds
the yaw. Inside, every component is a tensor (N,): compiled, whole steps become one loop over N.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require
from navrl.envs.navigation.sim.drone import Drone, DroneModel, Factors, closed

_LEAST = 1e-12  # smallest squared length in a divisor

Vector = tuple[Tensor, Tensor, Tensor]


class _Axes(NamedTuple):
    """The body axes in the world."""

    x: Vector
    y: Vector
    z: Vector


@dataclass(frozen=True, kw_only=True)
class LeeQuadrotor(DroneModel):
    """A quadrotor with a rotor ahead, one to the left, one behind and one to the right.

    Inner state: attitude (4, N), the quaternion w x y z from body to world; body rates (3, N) in rad/s; and
    the throttles (4, N) of its rotors in the order above, roots of their part of the full thrust.
    """

    mass_kg: float
    inertia_xy_kgm2: float
    inertia_z_kgm2: float
    arm_m: float  # from the middle to each rotor
    rotor_thrust_n: float  # of one rotor at full speed
    rotor_torque_m: float  # its drag's torque per thrust
    rotor_lag_s: float
    gravity_mps2: float
    velocity_gain_per_s: float
    attitude_gain_nm: float  # about x and y
    attitude_rate_gain_nms: float
    yaw_gain_nm: float
    yaw_rate_gain_nms: float
    longest_step_s: float

    def __post_init__(self) -> None:
        """Raise ConfigError for impossible numbers and a drone that cannot carry its weight."""
        super().__post_init__()
        quarter_n = self.mass_kg * self.gravity_mps2 / 4.0
        expected = f"more than a quarter of the weight, {quarter_n:.3g} N"
        carries = self.rotor_thrust_n > quarter_n
        require(carries, "drone.rotor_thrust_n", self.rotor_thrust_n, expected)

    def inner(self, heading: Tensor) -> tuple[Tensor, ...]:
        """Return an upright attitude, no rates, and throttles that carry the weight."""
        cos, sin = heading[0], heading[1]
        zero = torch.zeros_like(cos)
        # Half of the angle, from the larger of its cosine and sine.
        large = (0.5 * (1.0 + cos.abs())).sqrt()
        small = 0.5 * sin.abs() / large
        near, sign = cos >= 0.0, torch.where(sin < 0.0, -1.0, 1.0)
        w, z = torch.where(near, large, small), sign * torch.where(near, small, large)
        hover = (self.mass_kg * self.gravity_mps2 / (4.0 * self.rotor_thrust_n)) ** 0.5
        return (
            torch.stack([w, zero, zero, z]),
            torch.stack([zero, zero, zero]),
            torch.stack([zero + hover] * 4),
        )

    def acceleration(self, drone: Drone) -> Tensor:
        """Return what the rotors' thrust and the weight make of it."""
        attitude, _, throttles = (field.unbind(0) for field in drone.inner)
        lift_mps2 = sum(value * value for value in throttles) * (self.rotor_thrust_n / self.mass_kg)
        x, y, z = _axes(attitude).z
        return torch.stack([lift_mps2 * x, lift_mps2 * y, lift_mps2 * z - self.gravity_mps2])

    def step(self, drone: Drone, command_mps: Tensor, factors: Factors, dt_s: float) -> Drone:
        """Integrate by semi-implicit Euler: rotors, velocity and body rates, position and attitude."""
        attitude, rates, throttles = (field.unbind(0) for field in drone.inner)
        axes = _axes(attitude)
        rate = (rates[0], rates[1], rates[2])
        missing = command_mps - drone.velocity
        demand = ((self.velocity_gain_per_s * factors.gain) * missing).unbind(0)
        force, torque = self._wanted(
            (demand[0], demand[1], demand[2] + self.gravity_mps2), axes, rate
        )
        part = closed(dt_s / (self.rotor_lag_s * factors.lag))
        throttle = [
            now + part * ((wanted * (1.0 / self.rotor_thrust_n)).clamp(0.0, 1.0).sqrt() - now)
            for now, wanted in zip(throttles, self._mixed(force, torque), strict=True)
        ]
        thrusts = [self.rotor_thrust_n * value * value for value in throttle]
        lift_mps2 = sum(thrusts[1:], thrusts[0]) * (1.0 / self.mass_kg)
        acceleration = (
            lift_mps2 * axes.z[0],
            lift_mps2 * axes.z[1],
            lift_mps2 * axes.z[2] - self.gravity_mps2,
        )
        velocity = drone.velocity + dt_s * (torch.stack(acceleration) + factors.wind)
        rate = self._turned(rate, self._torque(thrusts), dt_s)
        return Drone(
            drone.position + dt_s * velocity,
            velocity,
            (torch.stack(_rotated(attitude, rate, dt_s)), torch.stack(rate), torch.stack(throttle)),
        )

    def _wanted(self, demand: Vector, axes: _Axes, rate: Vector) -> tuple[Tensor, Vector]:
        """Return the thrust and body torque that turn the z axis to the wanted acceleration."""
        force = self.mass_kg * _dot(demand, axes.z)
        up = _unit(demand)
        left = _unit(_cross(up, (axes.x[0], axes.x[1], torch.zeros_like(force))))
        ahead = _cross(left, up)
        tilt_x = 0.5 * (_dot(up, axes.y) - _dot(left, axes.z))
        tilt_y = 0.5 * (_dot(ahead, axes.z) - _dot(up, axes.x))
        turn = 0.5 * (_dot(left, axes.x) - _dot(ahead, axes.y))
        return force, (
            -self.attitude_gain_nm * tilt_x - self.attitude_rate_gain_nms * rate[0],
            -self.attitude_gain_nm * tilt_y - self.attitude_rate_gain_nms * rate[1],
            -self.yaw_gain_nm * turn - self.yaw_rate_gain_nms * rate[2],
        )

    def _mixed(self, force: Tensor, torque: Vector) -> Sequence[Tensor]:
        """Return the thrusts of the rotors for this force and torque."""
        even = 0.25 * force
        roll, pitch = torque[0] * (0.5 / self.arm_m), torque[1] * (0.5 / self.arm_m)
        yaw = torque[2] * (0.25 / self.rotor_torque_m)
        return even - pitch + yaw, even + roll - yaw, even + pitch + yaw, even - roll - yaw

    def _torque(self, thrusts: Sequence[Tensor]) -> Vector:
        """Return the body torque of these thrusts; the inverse of _mixed."""
        ahead, left, behind, right = thrusts
        return (
            self.arm_m * (left - right),
            self.arm_m * (behind - ahead),
            self.rotor_torque_m * (ahead + behind - left - right),
        )

    def _turned(self, rate: Vector, torque: Vector, dt_s: float) -> Vector:
        """Return the body rates after the step, by torque and the gyroscopic torque of a flat body."""
        x, y, z = rate
        flat = self.inertia_z_kgm2 - self.inertia_xy_kgm2
        per_xy, per_z = dt_s / self.inertia_xy_kgm2, dt_s / self.inertia_z_kgm2
        return (
            x + per_xy * (torque[0] - flat * y * z),
            y + per_xy * (torque[1] + flat * x * z),
            z + per_z * torque[2],
        )


def _axes(attitude: Sequence[Tensor]) -> _Axes:
    """Return the columns of the rotation matrix."""
    w, x, y, z = attitude
    return _Axes(
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


def _rotated(attitude: Sequence[Tensor], rate: Vector, dt_s: float) -> list[Tensor]:
    """Return the unit quaternion after dt_s at these body rates."""
    w, x, y, z = attitude
    a, b, c = (0.5 * dt_s * part for part in rate)
    turned = (
        w - a * x - b * y - c * z,
        x + a * w + c * y - b * z,
        y + b * w + a * z - c * x,
        z + c * w + b * x - a * y,
    )
    scale = torch.rsqrt(sum((part * part for part in turned[1:]), turned[0] * turned[0]))
    return [part * scale for part in turned]


def _dot(a: Vector, b: Vector) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def _unit(vector: Vector) -> Vector:
    scale = torch.rsqrt(_dot(vector, vector).clamp_min(_LEAST))
    return vector[0] * scale, vector[1] * scale, vector[2] * scale
