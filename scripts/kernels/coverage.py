"""The kernel of coverage.c: compiled by gcc, called on the simulator's tensors."""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from kernels import FAST, Bound, compiled
from navrl.envs.core.rewards import SharedReward
from navrl.envs.coverage.observations import Histogram
from navrl.envs.coverage.sim.advance import CoverageState, Service
from navrl.envs.coverage.sim.backhaul import NoBackhaul
from navrl.envs.coverage.sim.params import CoverageParams
from navrl.envs.coverage.sim.radio import LEAST_M, free_space_constant_db

KERNEL = Path(__file__).with_name("coverage.c")
BLOCK = 16  # envs; the kernel takes whole blocks
TERMS = ("coverage", "quality", "height")  # of the reward
_QUALITY_SPAN_DB = 30.0


class Outcome(NamedTuple):
    """The tensors that one call of the kernel fills."""

    state: CoverageState
    reward: Tensor  # (1 + terms, N): the team's, and the part of every term
    leaves: dict[str, Tensor]  # (n, ..., N): the observation of every drone
    critic: Tensor  # (state_size, N): the state for a centralised critic


class CoverageKernel:
    """scripts/kernels/coverage.c, compiled for these constants."""

    def __init__(
        self, params: CoverageParams, observation: Histogram, reward: SharedReward
    ) -> None:
        radio = params.radio
        known = {
            "env.sim.radio.channel": (radio.channel, "free_space"),
            "env.sim.radio.min_sinr_db below 0": (radio.min_sinr_db < 0.0, False),
            "env.sim.user_speed_mps": (params.user_speed_mps, 0.0),
            "env.sim.backhaul": (type(params.backhaul), NoBackhaul),
            "observation": (type(observation), Histogram),
            "reward.terms": (reward.names, TERMS),
        }
        for name, (value, expected) in known.items():
            if value != expected:
                raise SystemExit(
                    f"{name} = {value}; the kernel knows {expected} only; "
                    "change it or scripts/kernels/coverage.c"
                )
        observation.prepare(params, "cpu")
        reward.prepare(params, "cpu")
        self._leaves, self._state_size = observation.leaves, observation.state_size
        self._step = compiled(KERNEL, _macros(params, observation, reward), FAST).step

    def bound(self, state: CoverageState, action: Tensor) -> Bound[Outcome]:
        """Return a call for one step from this state with actions (3, n, N)."""
        drones, num_envs = state.service.load.shape
        if num_envs % BLOCK:
            raise SystemExit(
                f"{num_envs} envs; the kernel knows multiples of {BLOCK} only; change the number of envs"
            )
        outcome = Outcome(
            state._replace(
                position=torch.empty_like(state.position),
                service=Service(*(torch.empty_like(field) for field in state.service)),
                step=torch.empty_like(state.step),
            ),
            torch.empty(1 + len(TERMS), num_envs),
            {name: torch.empty(drones, *shape, num_envs) for name, shape in self._leaves.items()},
            torch.empty(self._state_size, num_envs),
        )
        after = outcome.state
        filled = [after.position, *after.service, after.step, outcome.reward]
        filled += [*outcome.leaves.values(), outcome.critic]
        before = [state.position, state.users.place, state.step]
        return Bound(self._step, outcome, before, action, filled, num_envs)


def _macros(
    params: CoverageParams, observation: Histogram, reward: SharedReward
) -> dict[str, float]:
    radio, (low_m, high_m) = params.radio, params.height_m
    one_metre_dbm = radio.power_dbm - free_space_constant_db(radio.carrier_hz)
    counts = {
        "DRONES": params.num_drones,
        "USERS": params.num_users,
        "MAX_USERS": radio.max_users,
        "HORIZON": params.horizon,
        "SIDE_CELLS": observation.cells,
    }
    numbers = {
        "SIDE_M": params.side_m,
        "LOW_M": low_m,
        "HIGH_M": high_m,
        "WAY_M": params.max_speed_mps * params.step_s,
        "CELL_M": observation.cell_m,
        "LEAST_M2": LEAST_M**2,
        "NOISE": 10.0 ** ((radio.noise_dbm - one_metre_dbm) / 10.0),  # in parts of that at 1 m
        "MIN_LEVEL": 10.0 ** (radio.min_sinr_db / 10.0),
        "MIN_DB": radio.min_sinr_db,
        "SPAN_DB": _QUALITY_SPAN_DB,
        "DECIBELS": 10.0 / math.log(10.0),  # of a factor e
        "NAT_MBPS": radio.bandwidth_hz * 1e-6 / math.log(2.0),
    }
    for name, weight in zip(TERMS, reward.weights.tensor.tolist(), strict=True):
        numbers[f"WEIGHT_{name.upper()}"] = weight
    return {name: float(number) for name, number in numbers.items()} | counts
