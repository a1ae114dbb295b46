"""The constants of one kind of drone navigation."""

import math
from typing import NamedTuple

from navrl.config.checks import require, require_choice, require_number, require_whole
from navrl.envs.navigation.sim.drone import SPEED_LIMITS, DroneModel
from navrl.envs.navigation.sim.lidar import Lidar, LidarNoise
from navrl.envs.navigation.sim.moving_obstacles import MovingParams

FRAMES = ("frozen", "current")
CONTACTS = ("exact", "lidar")
_LATEST = 20  # decisions of latency: each costs memory and time


class Variation(NamedTuple):
    """The domain randomisation: ranges from which each episode draws, and the strength of the wind."""

    gain: tuple[float, float]  # factor on the strength with which the drone follows a command
    lag: tuple[float, float]  # factor on its lag
    latency_decisions: tuple[int, int]  # a command is flown so many decisions after it was given
    wind_mps2: float  # standard deviation of a constant acceleration per axis

    def check(self) -> None:
        """Raise ConfigError for an impossible range."""
        for name, pair in (("gain", self.gain), ("lag", self.lag)):
            usable = 0.0 < pair[0] <= pair[1] < math.inf
            require(usable, f"env.sim.vary.{name}", pair, "[low, high] with 0 < low <= high")
        usable = 0 <= self.latency_decisions[0] <= self.latency_decisions[1] <= _LATEST
        expected = f"[low, high] with 0 <= low <= high <= {_LATEST}"
        require(usable, "env.sim.vary.latency_decisions", self.latency_decisions, expected)
        require_number("env.sim.vary.wind_mps2", self.wind_mps2, least=0.0)


class NavigationParams(NamedTuple):
    """The options of env.sim: Python numbers, so a compiled step folds them in."""

    lidar: Lidar
    noise: LidarNoise
    scan_latency_decisions: int  # the policy sees the scan of so many decisions ago
    drone: DroneModel
    moving: MovingParams
    vary: Variation
    decision_s: float  # time between two actions
    time_limit_s: float
    speed_limit_mps: float  # an action of 1
    speed_limit: str  # box: of each component | norm: of the speed
    body_radius_m: float  # what comes closer than this is a collision
    contact: str  # exact: with any obstacle so near | lidar: with what a beam meets so near
    goal_radius_m: float
    goal_ends: bool  # reaching the goal ends the episode; false: the drone has to stay
    floor_m: float  # below it the episode ends
    ceiling_m: float  # and above this
    side_limit_m: float | None  # and this far from the middle along x or y; null: never
    near_count: int  # moving obstacles that are observed
    near_range_m: float  # within this horizontal distance
    frame: str  # the goal direction that action and observation are relative to: of the start, or of now

    @property
    def decisions(self) -> int:
        """Return the number of decisions after which an episode is truncated."""
        return math.ceil(self.time_limit_s / self.decision_s - 1e-9)

    @property
    def pending(self) -> int:
        """Return the number of commands that can be under way to the drone."""
        return self.vary.latency_decisions[1]

    def checked(self) -> "NavigationParams":
        """Return self, or raise ConfigError for an impossible number."""
        for name in (
            "decision_s",
            "speed_limit_mps",
            "body_radius_m",
            "goal_radius_m",
            "near_range_m",
        ):
            require_number(f"env.sim.{name}", getattr(self, name), above=0.0)
        require_number("env.sim.time_limit_s", self.time_limit_s, least=self.decision_s)
        require_number("env.sim.floor_m", self.floor_m, least=0.0)
        require_number("env.sim.ceiling_m", self.ceiling_m, above=self.floor_m)
        side = self.side_limit_m
        require(side is None or side > 0.0, "env.sim.side_limit_m", side, "more than 0, or null")
        require_choice("env.sim.speed_limit", self.speed_limit, SPEED_LIMITS)
        require_choice("env.sim.contact", self.contact, CONTACTS)
        require_choice("env.sim.frame", self.frame, FRAMES)
        self._check_speed()
        require_whole("env.sim.near_count", self.near_count, 1)
        require_whole("env.sim.scan_latency_decisions", self.scan_latency_decisions, 0, 4)
        self.vary.check()
        return self

    def _check_speed(self) -> None:
        """Raise ConfigError for drones so fast that a collision within a decision is missed."""
        axes = 3.0 if self.speed_limit == "box" else 1.0
        # The lidar's contact is tested at the end of a decision only; the exact one on the whole way, among
        # the obstacles in sight from its end.
        most_m, instead = self.body_radius_m, "lower it or env.sim.decision_s, or use contact=exact"
        if self.contact == "exact":
            most_m, instead = (
                self.lidar.range_m - self.body_radius_m,
                "lower it or env.sim.decision_s",
            )
        most_mps = most_m / (self.decision_s * math.sqrt(axes))
        expected = f"at most {most_mps:.4g}, or collisions within a decision are missed; {instead}"
        usable = self.speed_limit_mps <= most_mps
        require(usable, "env.sim.speed_limit_mps", self.speed_limit_mps, expected)
