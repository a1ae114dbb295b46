"""Reward terms of Alice and Bob."""

from torch import Tensor

from navrl.envs.alice_and_bob.sim import GridParams, won
from navrl.envs.core.rewards import Transition

# A configuration may name these.
__all__ = ["diamond", "success"]

READS = GridParams  # the constants that these terms need


def success(transition: Transition) -> Tensor:
    """Reward the step in which both diamonds are collected."""
    return (won(transition.after) & ~won(transition.before)).float()


def diamond(transition: Transition) -> Tensor:
    """Reward every diamond, in the step in which it is collected."""
    first, second = transition.events.gained.float()
    return first + second
