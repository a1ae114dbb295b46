"""The rigid body of lee_quadrotor.py again: rotation matrices, a solved allocation, float64, Runge-Kutta."""

import math

import numpy as np


def hat(vector):
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def vee(matrix):
    return np.array([matrix[2, 1], matrix[0, 2], matrix[1, 0]])


class Quadrotor:
    """State: position, velocity, rotation matrix, body rates, throttles; in one vector of 22."""

    def __init__(self, lee):
        self.lee = lee
        angles = [0.0, 0.5 * math.pi, math.pi, 1.5 * math.pi]
        spins = [1.0, -1.0, 1.0, -1.0]
        # Rows: thrust, torque r x f about x and y, drag of the rotors about z.
        self.allocation = np.array(
            [
                [1.0] * 4,
                [lee.arm_m * math.sin(angle) for angle in angles],
                [-lee.arm_m * math.cos(angle) for angle in angles],
                [lee.rotor_torque_m * spin for spin in spins],
            ]
        )
        self.inertia = np.diag([lee.inertia_xy_kgm2, lee.inertia_xy_kgm2, lee.inertia_z_kgm2])
        self.gravity = np.array([0.0, 0.0, lee.gravity_mps2])

    def hovering(self, position, yaw):
        turn = [
            [math.cos(yaw), -math.sin(yaw), 0.0],
            [math.sin(yaw), math.cos(yaw), 0.0],
            [0.0, 0.0, 1.0],
        ]
        throttle = math.sqrt(
            self.lee.mass_kg * self.lee.gravity_mps2 / (4.0 * self.lee.rotor_thrust_n)
        )
        return np.concatenate(
            [position, np.zeros(3), np.ravel(turn), np.zeros(3), np.full(4, throttle)]
        )

    def rotor_thrusts(self, velocity, turn, rates, command):
        lee = self.lee
        demand = lee.velocity_gain_per_s * (command - velocity) + self.gravity
        yaw = math.atan2(turn[1, 0], turn[0, 0])
        up = demand / np.linalg.norm(demand)
        left = np.cross(up, [math.cos(yaw), math.sin(yaw), 0.0])
        left /= np.linalg.norm(left)
        wanted = np.stack([np.cross(left, up), left, up], axis=1)
        error = 0.5 * vee(wanted.T @ turn - turn.T @ wanted)
        stiff = np.array([lee.attitude_gain_nm, lee.attitude_gain_nm, lee.yaw_gain_nm])
        damp = np.array(
            [lee.attitude_rate_gain_nms, lee.attitude_rate_gain_nms, lee.yaw_rate_gain_nms]
        )
        torque = -stiff * error - damp * rates
        force = lee.mass_kg * demand @ turn[:, 2]
        return np.linalg.solve(self.allocation, np.concatenate([[force], torque]))

    def slope(self, state, command):
        lee = self.lee
        velocity, turn, rates, throttle = (
            state[3:6],
            state[6:15].reshape(3, 3),
            state[15:18],
            state[18:],
        )
        wanted = np.clip(
            self.rotor_thrusts(velocity, turn, rates, command) / lee.rotor_thrust_n, 0.0, 1.0
        )
        force, *torque = self.allocation @ (lee.rotor_thrust_n * throttle**2)
        acceleration = force / lee.mass_kg * turn[:, 2] - self.gravity
        momentum = self.inertia @ rates
        turning = np.linalg.solve(self.inertia, np.array(torque) - np.cross(rates, momentum))
        lag = (np.sqrt(wanted) - throttle) / lee.rotor_lag_s
        return np.concatenate([velocity, acceleration, np.ravel(turn @ hat(rates)), turning, lag])

    def flown(self, state, command, dt, steps):
        for _ in range(steps):
            one = self.slope(state, command)
            two = self.slope(state + 0.5 * dt * one, command)
            three = self.slope(state + 0.5 * dt * two, command)
            four = self.slope(state + dt * three, command)
            state = state + dt / 6.0 * (one + 2.0 * two + 2.0 * three + four)
        return state
