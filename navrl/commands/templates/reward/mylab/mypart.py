"""The reward term mypart."""

from navrl.envs.combat.rewards import per_member
from navrl.envs.core.rewards import Transition
from torch import Tensor


def mypart(transition: Transition) -> Tensor:
    """Return the mean speed of the team, in parts of 400 m/s; the dead count 0."""
    craft = transition.after.aircraft
    return per_member(transition, craft.alive * craft.motion.speed_mps) / 400.0
