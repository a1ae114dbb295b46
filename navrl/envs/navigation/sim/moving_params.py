"""What moves among drones, how fast and how; and which of the obstacles are how large."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

MODES = ("waypoint", "bouncing", "crossing", "stop_and_go")
WIDTHS_M = (0.25, 0.5, 0.75, 1.0)
KINDS = 2 * len(WIDTHS_M)  # blocks and columns of every width
BLOCK_HEIGHT_M, COLUMN_HEIGHT_M = 1.0, 5.0


@dataclass(frozen=True, kw_only=True)
class MovingParams:
    """What moves, how fast and how; Python numbers, so a compiled step folds them in."""

    count: int  # the most that there can be, a multiple of the 8 kinds
    half_extent_m: float  # of the box, along x and y
    height_m: float  # of the box
    speed_mps: tuple[float, float]  # each draws its own with every goal
    local_range_m: tuple[float, float, float]  # a territory is this far either side of a home
    modes: Mapping[str, float]  # shares of the modes
    arrival_m: float  # so near, a goal is reached
    re_aim_every_s: (
        float | None
    )  # null: on arrival; else all turn to their goals at these times only
    rest_s: float  # mean time that stop_and_go stands still
    look_ahead_s: float  # crossing predicts the drone no farther
    clear_of_start_m: float  # nothing begins nearer to the drone

    def __post_init__(self) -> None:
        """Refuse numbers that no motion fits."""
        whole = self.count >= KINDS and self.count % KINDS == 0
        self._require(
            "count", whole, f"a multiple of {KINDS}, {KINDS} or more (for none: 0 active)"
        )
        for name in ("half_extent_m", "height_m", "arrival_m", "rest_s"):
            self._require(name, getattr(self, name) > 0.0, "more than 0")
        for name in ("look_ahead_s", "clear_of_start_m"):
            self._require(name, getattr(self, name) >= 0.0, "0 or more")
        slow, fast = self.speed_mps
        self._require("speed_mps", 0.0 < slow <= fast, "[low, high] with 0 < low <= high")
        self._require("local_range_m", min(self.local_range_m) >= 0.0, "three numbers, 0 or more")
        every_s = self.re_aim_every_s
        self._require("re_aim_every_s", every_s is None or every_s > 0.0, "more than 0, or null")
        shares = self.modes.values()
        usable = set(self.modes) == set(MODES) and min(shares) >= 0.0 and sum(shares) > 0.0
        self._require("modes", usable, f"shares of 0 or more, not all 0, for {', '.join(MODES)}")

    def _require(self, name: str, satisfied: bool, expected: str) -> None:
        if not satisfied:
            raise ValueError(
                f"env.sim.moving.{name} = {getattr(self, name)}; expected {expected}; "
                f"change env.sim.moving.{name}"
            )


def radius_m(params: MovingParams, index: Tensor) -> Tensor:
    """Half the width of the obstacles with these indices."""
    quarter = index * KINDS // params.count % len(WIDTHS_M)
    return (quarter + 1) * (0.5 * WIDTHS_M[0])


def is_column(params: MovingParams, index: Tensor) -> Tensor:
    """Which of these indices are columns, bool."""
    return index >= params.count // 2
