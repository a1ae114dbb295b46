"""The constants of one kind of drone navigation."""

import math
from typing import NamedTuple

from navrl.envs.navigation.sim.drone import SPEED_LIMITS, Model
from navrl.envs.navigation.sim.lidar import Lidar, LidarNoise
from navrl.envs.navigation.sim.moving_obstacles import MovingParams

FRAMES = ("frozen", "current")
CONTACTS = ("exact", "lidar")
_LATEST = 20  # decisions that a command may take: each costs memory and time


class Variation(NamedTuple):
    """What differs from episode to episode: ranges from which each draws, and the strength of the wind."""

    gain: tuple[float, float]  # factor on how hard the drone follows a command
    lag: tuple[float, float]  # factor on how late it does
    latency_decisions: tuple[int, int]  # a command is flown so many decisions after it was given
    wind_mps2: float  # standard deviation of a constant acceleration per axis


class NavigationParams(NamedTuple):
    """Python numbers, so a compiled step folds them in."""

    lidar: Lidar
    noise: LidarNoise
    scan_latency_decisions: int  # the policy sees the scan of so many decisions ago
    drone: Model
    moving: MovingParams
    vary: Variation
    decision_s: float  # time between two actions
    time_limit_s: float
    speed_limit_mps: float  # an action of 1
    speed_limit: str  # box: of each component | norm: of the speed
    body_radius_m: float  # what comes closer than this is a collision
    contact: str  # exact: with whatever stands so near | lidar: with what a beam meets so near
    goal_radius_m: float
    goal_ends: bool  # reaching the goal ends the episode; false: the drone has to stay
    floor_m: float  # below it the episode ends
    ceiling_m: float  # and above this
    side_limit_m: float | None  # and this far from the middle along x or y; null: never
    near_count: int  # moving obstacles that are told
    near_range_m: float  # within this horizontal distance
    frame: str  # the goal direction that action and observation are relative to: of the start, or of now

    @property
    def decisions(self) -> int:
        """Decisions after which an episode is cut."""
        return math.ceil(self.time_limit_s / self.decision_s - 1e-9)

    @property
    def pending(self) -> int:
        """Commands that can be under way to the drone."""
        return self.vary.latency_decisions[1]

    def checked(self) -> "NavigationParams":
        """The same, after a look at every number."""
        for name in (
            "decision_s",
            "time_limit_s",
            "speed_limit_mps",
            "body_radius_m",
            "goal_radius_m",
            "near_range_m",
        ):
            value = getattr(self, name)
            _require(name, value, 0.0 < value < math.inf, "a number more than 0")
        _require(
            "decision_s",
            self.decision_s,
            self.decision_s <= self.time_limit_s,
            "time_limit_s or less",
        )
        _require(
            "ceiling_m",
            self.ceiling_m,
            0.0 <= self.floor_m < self.ceiling_m < math.inf,
            "a number more than floor_m >= 0",
        )
        side = self.side_limit_m
        _require("side_limit_m", side, side is None or side > 0.0, "more than 0, or null")
        limits = " or ".join(SPEED_LIMITS)
        _require("speed_limit", self.speed_limit, self.speed_limit in SPEED_LIMITS, limits)
        _require("contact", self.contact, self.contact in CONTACTS, " or ".join(CONTACTS))
        _require("frame", self.frame, self.frame in FRAMES, " or ".join(FRAMES))
        _require("near_count", self.near_count, self.near_count >= 1, "1 or more")
        late = self.scan_latency_decisions
        _require("scan_latency_decisions", late, 0 <= late <= 4, "a whole number from 0 to 4")
        for name in ("gain", "lag"):
            low, high = getattr(self.vary, name)
            usable = 0.0 < low <= high < math.inf
            _require(f"vary.{name}", (low, high), usable, "[low, high] with 0 < low <= high")
        soonest, latest = self.vary.latency_decisions
        usable = 0 <= soonest <= latest <= _LATEST
        expected = f"[low, high] with 0 <= low <= high <= {_LATEST}"
        _require("vary.latency_decisions", (soonest, latest), usable, expected)
        wind = self.vary.wind_mps2
        _require("vary.wind_mps2", wind, 0.0 <= wind < math.inf, "0 or more")
        return self


def _require(name: str, value: object, usable: bool, expected: str) -> None:
    if not usable:
        raise ValueError(f"env.sim.{name} = {value}; expected {expected}; change env.sim.{name}")
