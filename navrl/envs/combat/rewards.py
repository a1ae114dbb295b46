"""What is paid for what happened in air combat.

A term is a team's: events count per aircraft of the team, so that a number means the same in any size.
"""

import functools
import operator
from collections.abc import Iterable

from torch import Tensor

from navrl.envs.combat.sim.state import CombatParams, winner_sign
from navrl.envs.core.rewards import Transition

READS = CombatParams  # what an env has that these terms read


def outcome(transition: Transition) -> Tensor:
    """+1 for a win, -1 for a loss, 0 for a draw, on the terminal step only; nothing at a time limit."""
    params: CombatParams = transition.params
    return winner_sign(params, transition.after, transition.team) * transition.terminated


def draw(transition: Transition) -> Tensor:
    """1 where the fight is over and nobody has won."""
    sign = winner_sign(transition.params, transition.after, transition.team)
    return (transition.terminated & (sign == 0)).float()


def timeout(transition: Transition) -> Tensor:
    """1 where the fight is cut: at the time limit, or because everybody has left."""
    return transition.truncated.float()


def launch(transition: Transition) -> Tensor:
    """1 for every missile launched; give it a negative weight to save missiles."""
    return per_member(transition, transition.events.launched)


def spared(transition: Transition) -> Tensor:
    """On a win, the part of the team's missiles that the living still have; 1 if they are unlimited."""
    craft = transition.after.aircraft
    left = per_member(transition, craft.alive * craft.rounds) / transition.params.rounds
    return left * outcome(transition).clamp_min(0.0)


def hit(transition: Transition) -> Tensor:
    """1 for every aircraft whose missile has killed."""
    return per_member(transition, transition.events.hit)


def get_hit(transition: Transition) -> Tensor:
    """1 for every aircraft killed."""
    return per_member(transition, transition.events.killed)


def defeated(transition: Transition) -> Tensor:
    """1 for every aircraft at which a missile has ended without a hit."""
    return per_member(transition, transition.events.defeated)


def members(transition: Transition) -> range:
    """Indices of the team's aircraft."""
    size = transition.params.team_size
    return range(transition.team * size, (transition.team + 1) * size)


def per_member(transition: Transition, rows: Tensor) -> Tensor:
    """Rows (A, N) of all aircraft, averaged over the team's: (N,)."""
    return mean_of(rows[me].float() for me in members(transition))


def mean_of(rows: Iterable[Tensor]) -> Tensor:
    """The mean of some (N,), written out: compilers turn a reduction of a few rows into slow code."""
    all_rows = list(rows)
    return functools.reduce(operator.add, all_rows) * (1.0 / len(all_rows))
