"""The world mypart: a point on a line moves to zero."""

from typing import NamedTuple

import torch
from navrl.envs.core import random, specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.rewards import Transition
from torch import Tensor


class MyPartParams(NamedTuple):
    """The constants; conf/env/mypart.yaml sets them."""

    step_m: float


class MyPartState(NamedTuple):
    """The places (N,)."""

    place_m: Tensor


def distance_m(state: MyPartState) -> Tensor:
    """Return the distance from zero."""
    return state.place_m.abs()


def progress(transition: Transition) -> Tensor:
    """Reward every metre towards zero."""
    return distance_m(transition.before) - distance_m(transition.after)


class MyPart(BatchedEnv):
    """A point on a line; an action (1, N) is a velocity."""

    action = specs.Bounds(-1.0, 1.0)
    statistic_names, rate_names = ("success", "distance_m"), ("success",)

    def initial(self, key: Tensor) -> MyPartState:
        """Return places between -1 and 1 m."""
        (draw,) = random.uniform(key, random.SCENARIO, 1)
        return MyPartState(2.0 * draw - 1.0)

    def advance(self, state: MyPartState, action: Tensor) -> tuple[MyPartState, None]:
        """Move by a share of step_m; there are no events."""
        (velocity,) = action
        return MyPartState(state.place_m + self.params.step_m * velocity), None

    def observe(self, state: MyPartState) -> dict[str, Tensor]:
        """Return the leaf `place` (1, N)."""
        return {"observation/place": state.place_m.unsqueeze(0)}

    def judge(self, state: MyPartState) -> tuple[Tensor, Tensor]:
        """Terminate within 5 cm of zero; only the horizon truncates."""
        there = distance_m(state) < 0.05
        return there, torch.zeros_like(there)

    def statistics(self, state: MyPartState) -> list[Tensor]:
        """Return success, and the distance that is left."""
        return [(distance_m(state) < 0.05).float(), distance_m(state)]
