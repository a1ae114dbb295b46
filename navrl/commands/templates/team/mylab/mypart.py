"""The world mypart: points on a line move to one place."""

from typing import NamedTuple

import torch
from navrl.envs.core import random, specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.rewards import Transition
from torch import Tensor


class MyPartParams(NamedTuple):
    """The constants; conf/env/mypart.yaml sets them."""

    num_agents: int
    step_m: float


class MyPartState(NamedTuple):
    """The places (A, N) of A agents."""

    place_m: Tensor


def spread_m(state: MyPartState) -> Tensor:
    """Return the distance between the outermost agents."""
    return state.place_m.amax(0) - state.place_m.amin(0)


def progress(transition: Transition) -> Tensor:
    """Reward every metre that the team draws together."""
    return spread_m(transition.before) - spread_m(transition.after)


class MyPart(BatchedEnv):
    """Points on a line; an action (A, 1, N) is the velocity of each."""

    action = specs.Bounds(-1.0, 1.0)
    statistic_names, rate_names = ("success", "spread_m"), ("success",)

    def initial(self, key: Tensor) -> MyPartState:
        """Return places between -1 and 1 m."""
        draws = random.uniform(key, random.SCENARIO, self.params.num_agents)
        return MyPartState(2.0 * draws - 1.0)

    def advance(self, state: MyPartState, action: Tensor) -> tuple[MyPartState, None]:
        """Move by shares of step_m; there are no events."""
        return MyPartState(state.place_m + self.params.step_m * action.squeeze(1)), None

    def observe(self, state: MyPartState) -> dict[str, Tensor]:
        """Return the leaf `places` (A, 2, N): the own place, and the middle of the team."""
        middle_m = (state.place_m.amax(0) + state.place_m.amin(0)) / 2.0
        places = torch.stack([state.place_m, middle_m.expand_as(state.place_m)], 1)
        return {"agents/observation/places": places}

    def judge(self, state: MyPartState) -> tuple[Tensor, Tensor]:
        """Terminate with everybody within 10 cm; only the horizon truncates."""
        met = spread_m(state) < 0.1
        return met, torch.zeros_like(met)

    def statistics(self, state: MyPartState) -> list[Tensor]:
        """Return success, and the distance that is left."""
        return [(spread_m(state) < 0.1).float(), spread_m(state)]
