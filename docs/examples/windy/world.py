"""The world windy: a drone keeps its place over a pad, in a wind that turns and that it does not observe.

The air drags the drone towards its own velocity: dv/dt = thrust + drag (wind - v), a step by semi-implicit
Euler. The wind is the same everywhere and goes on turning from one episode to the next.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.envs.core import random, specs
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.rewards import Transition
from navrl.envs.core.shapes import Circle, Shape
from navrl.storage.schema import check, whole

NEAR_M = 0.5  # of the pad, which is the origin


class WindyParams(NamedTuple):
    """The constants; conf/env/windy.yaml sets them."""

    step_s: float
    thrust_mps2: float  # of an action of 1, along each axis
    drag_per_s: float
    wind_mps: float
    blows_to_deg: float  # at the first step; 0: along x, 90: along y
    turn_deg: float  # of the wind with every step


class WindyState(NamedTuple):
    """What changes in an episode, env axis last."""

    place: Tensor  # (2, N) metres
    velocity: Tensor  # (2, N) m/s
    near_s: Tensor  # (N,) time spent near the pad
    time_s: Tensor  # (N,)


class Windy(BatchedEnv):
    """An action (2, N) is the thrust along both axes."""

    params: WindyParams
    action = specs.Bounds(-1.0, 1.0, columns=2)
    statistic_names = share_names = ("near",)
    _steps = 0  # of the wind, since the world began

    def initial(self, key: Tensor) -> WindyState:
        """Return drones at rest, up to 3 m from the pad along each axis."""
        place = 6.0 * random.uniform(key, random.SCENARIO, 2) - 3.0
        zeros = torch.zeros_like(place[0])
        return WindyState(place, torch.zeros_like(place), zeros, zeros)

    def wind(self) -> Tensor:
        """Return the velocity of the air now (2, 1)."""
        params = self.params
        angle = math.radians(params.blows_to_deg + params.turn_deg * self._steps)
        wind = [[params.wind_mps * math.cos(angle)], [params.wind_mps * math.sin(angle)]]
        return torch.tensor(wind, device=self.device)

    def outside(self) -> Tensor:
        """Return the wind of the next step, which no episode begins anew."""
        wind = self.wind()
        self._steps += 1
        return wind

    def advance_given(
        self, state: WindyState, action: Tensor, given: Tensor | None
    ) -> tuple[WindyState, None]:
        """Fly for step_s in this wind, by default that of now; there are no events."""
        wind = self.wind() if given is None else given
        params = self.params
        thrust = params.thrust_mps2 * action.clamp(-1.0, 1.0)
        velocity = state.velocity + params.step_s * (
            thrust + params.drag_per_s * (wind - state.velocity)
        )
        place = state.place + params.step_s * velocity
        near = (distance(place) < NEAR_M).float()
        near_s, time_s = state.near_s + params.step_s * near, state.time_s + params.step_s
        return WindyState(place, velocity, near_s, time_s), None

    def advance(self, state: WindyState, action: Tensor) -> tuple[WindyState, None]:
        """Fly for step_s in the wind of now."""
        return self.advance_given(state, action, None)

    def observe(self, state: WindyState) -> dict[str, Tensor]:
        """Return the leaf `drone` (4, N): the wind is not in it."""
        return {"observation/drone": torch.cat([state.place, state.velocity])}

    def statistics(self, state: WindyState) -> list[Tensor]:
        """Return the share of the episode that was spent near the pad."""
        return [state.near_s / state.time_s.clamp_min(self.params.step_s)]

    def draw(self, state: WindyState) -> list[Shape]:
        """Return the pad and the drone."""
        pad = Circle((0.0, 0.0), NEAR_M, colour="goal", label="pad")
        return [pad, Circle(state.place, 0.15, trail=True, label="drone")]

    def runtime_state(self) -> dict[str, Any]:
        """Include how far the wind has turned."""
        return {**super().runtime_state(), "steps": self._steps}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore the wind too."""
        super().load_runtime_state(runtime)
        check(runtime.get("steps"), whole(), "env/steps")
        self._steps = runtime["steps"]


def distance(place: Tensor) -> Tensor:
    """Return the way to the pad (N,)."""
    return place.square().sum(0).sqrt()


def away(transition: Transition) -> Tensor:
    """Punish every metre from the pad, up to five."""
    return -distance(transition.after.place).clamp_max(5.0)
