"""Drones for tests: the constants of the specification, and factors that change nothing."""

import math

import torch

from navrl.envs.navigation.sim.drone import Factors, SecondOrder
from navrl.envs.navigation.sim.lee_quadrotor import LeeQuadrotor

HUMMINGBIRD = LeeQuadrotor(
    mass_kg=0.716,
    inertia_xy_kgm2=0.007,
    inertia_z_kgm2=0.012,
    arm_m=0.17,
    rotor_thrust_n=8.54858e-6 * 838.0**2,
    rotor_torque_m=1.36777e-7 / 8.54858e-6,
    rotor_lag_s=-0.016 / math.log(1.0 - 0.43),  # 0.43 of the gap in 16 ms
    gravity_mps2=9.81,
    velocity_gain_per_s=2.2,
    attitude_gain_nm=0.7,
    attitude_rate_gain_nms=0.1,
    yaw_gain_nm=0.035,
    yaw_rate_gain_nms=0.025,
    longest_step_s=1.0 / 60.0,
)
SECOND_ORDER = SecondOrder(
    gain_per_s=2.25,
    lag_s=0.16,
    horizontal_limit_mps2=8.0,
    vertical_limit_mps2=6.0,
    longest_step_s=1.0 / 60.0,
)


def plain(count=1, *, gain=1.0, lag=1.0, wind=(0.0, 0.0, 0.0)):
    one = torch.ones(count)
    return Factors(gain * one, lag * one, 0.0 * one, torch.tensor(wind).unsqueeze(1) * one)


def column(*values):
    """Return one vector as a column (3, 1)."""
    return torch.tensor([values]).t().float()
