"""Scenarios: each turns the key of an episode into the opening motion of all aircraft.

A scenario places one leader for each side. In teams the leader's place is the middle of a line abreast: the
aircraft of a side fly parallel, side by side, the lowest index rightmost. To add one, write a class with
`leaders` here and a file in conf/scenario that names it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from navrl.config.checks import require
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import select
from navrl.envs.core import random
from navrl.envs.core.weights import Weighted, Weights

# A configuration may name these.
__all__ = ["Box", "Fixed", "Inbound", "MidRandom", "Rear", "ScenarioMixture"]

Bounds = tuple[float, float]

_DRAWS = 8  # random numbers for the leaders; two more for the spacing of the sides


class Scenario(Protocol):
    """The role of a scenario in an env."""

    def opening(self, key: Tensor, team_size: int) -> Motion:
        """Return the motion of all aircraft, fields (A, N); the learner's team_size come first."""

    def checked(self) -> Self:
        """Return self, or raise a ValueError that names the impossible number."""

    def to(self, device: torch.device | str) -> None:
        """Move its tensors, if any, to the device."""


@dataclass(frozen=True, kw_only=True)
class LineAbreast:
    """Two lines abreast; a subclass places the leaders."""

    spacing_m: Bounds  # between neighbours in a team, drawn per episode and side

    bounds: ClassVar[tuple[str, ...]] = ()  # fields that are [low, high], besides the spacing
    positive: ClassVar[tuple[str, ...]] = ()  # fields that are one number of more than 0

    def leaders(self, draw: Tensor) -> Motion:
        """Return the motion of the leaders, fields (2, N), from eight uniform numbers (8, N)."""
        raise TypeError(f"{type(self).__name__} lacks leaders(draw) -> Motion")

    def opening(self, key: Tensor, team_size: int) -> Motion:
        """Return the motion of all aircraft, fields (2 team_size, N)."""
        # The spacing comes last, so that the leaders are the same in any team size.
        draw = random.uniform(key, random.SCENARIO, _DRAWS + 2)
        leaders = self.leaders(draw)
        if team_size == 1:
            return leaders
        return abreast(leaders, _between(self.spacing_m, draw[_DRAWS:]), team_size)

    def checked(self) -> Self:
        """Return self, or raise a ValueError that names the impossible number."""
        for name in (*self.bounds, "spacing_m"):
            pair = getattr(self, name)
            usable = len(pair) == 2 and 0.0 < pair[0] <= pair[1] < math.inf
            self._require(name, usable, "[low, high] with 0 < low <= high")
        for name in self.positive:
            self._require(name, getattr(self, name) > 0.0, "more than 0")
        return self

    def _require(self, name: str, satisfied: bool, expected: str) -> None:
        require(satisfied, f"scenario.{name}", getattr(self, name), expected)

    def to(self, device: torch.device | str) -> None:
        """Move nothing: these are Python numbers."""


@dataclass(frozen=True, kw_only=True)
class MidRandom(LineAbreast):
    """Mid range, pointing roughly at each other, the whole picture turned at random."""

    range_m: Bounds
    speed_mps: Bounds
    heading_spread_rad: float  # off the line to the enemy, either way

    bounds = ("range_m", "speed_mps")

    def leaders(self, draw: Tensor) -> Motion:
        """Place the leaders."""
        range_m = _between(self.range_m, draw[0])
        line_rad = draw[1] * (2.0 * math.pi)  # from the first leader to the second
        cos_line, sin_line = torch.cos(line_rad), torch.sin(line_rad)
        # The coin makes "first" and "second" interchangeable even for scenarios that are not symmetric.
        side = torch.where(draw[2] < 0.5, 1.0, -1.0)
        offset = torch.stack([-side, side]) * (range_m * 0.5)
        heading = torch.stack([line_rad, line_rad + math.pi])
        heading = torch.where(side > 0, heading, heading + math.pi)
        heading = heading + (2.0 * draw[3:5] - 1.0) * self.heading_spread_rad
        speed_mps = _between(self.speed_mps, draw[5:7])
        return _motion(offset * cos_line, offset * sin_line, heading, speed_mps)


@dataclass(frozen=True, kw_only=True)
class Fixed(LineAbreast):
    """The same opening in every episode: one number for each side."""

    x_m: tuple[float, float]
    y_m: tuple[float, float]
    heading_rad: tuple[float, float]
    speed_mps: Bounds
    swap_sides: bool  # a coin decides which side begins where

    def leaders(self, draw: Tensor) -> Motion:
        """Place the leaders."""
        numbers = (self.x_m, self.y_m, self.heading_rad, self.speed_mps)
        rows = [torch.stack([torch.full_like(draw[0], side) for side in pair]) for pair in numbers]
        return _swapped(_motion(*rows), draw[0], self.swap_sides)

    def checked(self) -> Self:
        """Return self, or raise a ValueError that names the impossible number."""
        for name in ("x_m", "y_m", "heading_rad", "speed_mps"):
            self._require(name, len(getattr(self, name)) == 2, "one number for each of two sides")
        self._require("speed_mps", min(self.speed_mps) > 0.0, "more than 0")
        return super().checked()


@dataclass(frozen=True, kw_only=True)
class Rear(LineAbreast):
    """The target is behind the learner."""

    range_m: Bounds
    bearing_spread_rad: float  # off dead astern, either way
    heading_spread_rad: float  # of the target off the line to the learner, either way; pi: anywhere
    speed_mps: float  # of both

    bounds = ("range_m",)
    positive = ("speed_mps",)

    def leaders(self, draw: Tensor) -> Motion:
        """Place the leaders; the learner's is never the target."""
        own_rad = draw[2] * (2.0 * math.pi)
        line_rad = own_rad + math.pi + (2.0 * draw[1] - 1.0) * self.bearing_spread_rad
        target_rad = line_rad + math.pi + (2.0 * draw[3] - 1.0) * self.heading_spread_rad
        heading = torch.stack([own_rad, target_rad])
        return at_range(_between(self.range_m, draw[0]), line_rad, heading, self.speed_mps)


@dataclass(frozen=True, kw_only=True)
class Inbound(LineAbreast):
    """One side comes from far away, roughly at the other, which heads anywhere."""

    range_m: float
    heading_spread_rad: float  # off the line to the other, either way
    speed_mps: float  # of both
    swap_sides: bool  # a coin decides which side comes; false: the opponent

    positive = ("range_m", "speed_mps")

    def leaders(self, draw: Tensor) -> Motion:
        """Place the leaders."""
        line_rad = draw[1] * (2.0 * math.pi)  # towards the side that comes
        back_rad = line_rad + math.pi + (2.0 * draw[2] - 1.0) * self.heading_spread_rad
        heading = torch.stack([draw[0] * (2.0 * math.pi), back_rad])
        motion = at_range(self.range_m, line_rad, heading, self.speed_mps)
        return _swapped(motion, draw[3], self.swap_sides)


@dataclass(frozen=True, kw_only=True)
class Box(LineAbreast):
    """Anywhere in a square, heading anywhere, each on its own."""

    half_side_m: float
    speed_mps: Bounds

    bounds = ("speed_mps",)
    positive = ("half_side_m",)

    def leaders(self, draw: Tensor) -> Motion:
        """Place the leaders."""
        place_m = (2.0 * draw[:4] - 1.0) * self.half_side_m
        speed_mps = _between(self.speed_mps, draw[4:6])
        return _motion(place_m[:2], place_m[2:], draw[6:8] * (2.0 * math.pi), speed_mps)


def abreast(leaders: Motion, spacing_m: Tensor, team_size: int) -> Motion:
    """Return the motion (2 S, N) of teams with their leaders (2, N) in the middle of a line abreast."""
    numbers = torch.arange(team_size, device=spacing_m.device).unsqueeze(-1)
    to_the_left_m = (numbers - 0.5 * (team_size - 1)) * spacing_m.unsqueeze(1)  # (2, S, N)
    team = Motion(*(field.unsqueeze(1).expand_as(to_the_left_m) for field in leaders))
    team = team._replace(
        x_m=team.x_m - to_the_left_m * team.sin_heading,
        y_m=team.y_m + to_the_left_m * team.cos_heading,
    )
    return Motion(*(field.flatten(0, 1) for field in team))


def at_range(
    range_m: Tensor | float, line_rad: Tensor, heading: Tensor, speed_mps: float
) -> Motion:
    """Place the first leader at the origin, the second at this range and direction from it; fields (2, N)."""
    x_m, y_m = range_m * torch.cos(line_rad), range_m * torch.sin(line_rad)
    zero = torch.zeros_like(line_rad)
    speeds_mps = torch.full_like(heading, speed_mps)
    return _motion(torch.stack([zero, x_m]), torch.stack([zero, y_m]), heading, speeds_mps)


def _swapped(motion: Motion, draw: Tensor, swap_sides: bool) -> Motion:
    """Exchange first and second where the coin decides so."""
    if not swap_sides:
        return motion
    return Motion(*(torch.where(draw < 0.5, field, field.flip(0)) for field in motion))


def _motion(x_m: Tensor, y_m: Tensor, heading: Tensor, speed_mps: Tensor) -> Motion:
    return Motion(x_m, y_m, torch.cos(heading), torch.sin(heading), speed_mps)


def _between(bounds: Bounds, draw: Tensor) -> Tensor:
    return bounds[0] + (bounds[1] - bounds[0]) * draw


class ScenarioMixture(Weighted):
    """Several scenarios in one run: every episode draws one of them.

    All are opened in every env and the drawn one is kept: no branch, no host synchronisation.
    """

    def __init__(self, *, scenarios: Mapping[str, Scenario], weights: Mapping[str, float]) -> None:
        self.scenarios = dict(scenarios)
        self.weights: Weights = Weights(
            names=self.scenarios, weights=weights, setting="scenario.weights"
        )

    def opening(self, key: Tensor, team_size: int) -> Motion:
        """Return the motion of all aircraft, fields (A, N): bit for bit that of the drawn scenario alone."""
        choice = self.weights.choose(random.uniform(key, random.MIXTURE, 1)[0])
        first, *others = [scenario.opening(key, team_size) for scenario in self.scenarios.values()]
        for index, other in enumerate(others, 1):
            first = select(choice == index, other, first)
        return first

    def checked(self) -> Self:
        """Return self, or raise the ValueError of one of the scenarios."""
        for scenario in self.scenarios.values():
            scenario.checked()
        return self

    def to(self, device: torch.device | str) -> None:
        """Hold the weights on this device."""
        self.weights.to(device)
        for scenario in self.scenarios.values():
            scenario.to(device)
