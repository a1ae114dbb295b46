"""Planner `greedy`: straight to the goal, without looking; the baseline for every other planner."""

from torch import Tensor

from navrl.envs.navigation.planners.base import Perception, Planner, straight_to_goal


class Greedy(Planner):
    """Flies at full speed, slower near the goal."""

    def __init__(self, *, speed_mps: float, slowing_per_s: float) -> None:
        self.speed_mps, self.slowing_per_s = speed_mps, slowing_per_s

    def act(
        self, perception: Perception, memory: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Command the velocity to the goal."""
        return straight_to_goal(perception, self.speed_mps, self.slowing_per_s), memory
