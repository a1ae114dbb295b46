"""What is paid for diamonds."""

from torch import Tensor

from navrl.rewards.base import Transition
from navrl.sims.grid import GridParams, won

READS = GridParams  # what an env has that these terms read


def success(transition: Transition) -> Tensor:
    """1 in the step that makes it both diamonds."""
    return (won(transition.after) & ~won(transition.before)).float()


def diamond(transition: Transition) -> Tensor:
    """Diamonds collected in this step."""
    first, second = transition.events.gained.float()
    return first + second
