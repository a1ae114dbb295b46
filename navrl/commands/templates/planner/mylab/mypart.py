"""The planner mypart."""

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal
from torch import Tensor

Memory = tuple[Tensor, ...]


class MyPart(Planner):
    """Flies straight to the goal, slower the nearer something is."""

    def __init__(self, *, speed_mps: float, slow_within_m: float) -> None:
        self.speed_mps, self.slow_within_m = speed_mps, slow_within_m

    def act(self, perception: Perception, memory: Memory) -> tuple[Tensor, Memory]:
        """Return the commanded velocity (3, N), and no memory."""
        nearest_m = perception.ranges.flatten(0, 1).amin(0)
        share = (nearest_m / self.slow_within_m).clamp(0.1, 1.0)
        return straight_to_goal(perception, self.speed_mps, slowing_per_s=1.0) * share, memory
