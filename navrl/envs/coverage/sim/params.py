"""The constants of drones that serve users from the air, each checked."""

from typing import NamedTuple

from navrl.config.checks import require, require_choice, require_number, require_whole
from navrl.envs.coverage.sim.backhaul import Connection
from navrl.envs.coverage.sim.radio import Radio
from navrl.envs.coverage.sim.users import PLACEMENTS

MAX_DRONES, MAX_USERS, MAX_HORIZON = 32, 256, 1_000_000


class CoverageParams(NamedTuple):
    """Python numbers, so a compiled step folds them in."""

    num_drones: int
    num_users: int
    side_m: float  # of the square in which drones and users are
    height_m: tuple[float, float]  # lowest and highest of a drone
    max_speed_mps: float  # along each axis, an action of 1
    step_s: float  # time between two actions
    horizon: int  # steps after which an episode is cut
    users: str  # how they are placed
    user_speed_mps: float  # of users who walk from place to place; 0: they stand
    radio: Radio
    backhaul: Connection

    @property
    def walking(self) -> bool:
        """Return True if the users move."""
        return self.user_speed_mps > 0.0

    def checked(self) -> "CoverageParams":
        """Return the same constants; raise ConfigError about the first one that cannot be."""
        require_whole("env.sim.num_drones", self.num_drones, 1, MAX_DRONES)
        require_whole("env.sim.num_users", self.num_users, 1, MAX_USERS)
        require_whole("env.sim.horizon", self.horizon, 1, MAX_HORIZON)
        for name in ("side_m", "max_speed_mps", "step_s"):
            require_number(f"env.sim.{name}", getattr(self, name), above=0.0)
        low, high = self.height_m
        expected = "[low, high], 0 <= low < high"
        require(0.0 <= low < high, "env.sim.height_m", [low, high], expected)
        require_choice("env.sim.users", self.users, PLACEMENTS)
        require_number("env.sim.user_speed_mps", self.user_speed_mps, least=0.0)
        self.radio.checked()
        self.backhaul.checked()
        return self
