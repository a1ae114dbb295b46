"""What is paid for diamonds."""

from torch import Tensor

from navrl.envs.alice_and_bob.sim import GridParams, won
from navrl.envs.core.rewards import Transition

READS = GridParams  # what an env has that these terms read


def success(transition: Transition) -> Tensor:
    """1 in the step that makes it both diamonds."""
    return (won(transition.after) & ~won(transition.before)).float()


def diamond(transition: Transition) -> Tensor:
    """Diamonds collected in this step."""
    first, second = transition.events.gained.float()
    return first + second
