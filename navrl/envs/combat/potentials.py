"""Shaping of air combat: potentials telescope, so they cannot change the best policy.

A potential belongs to a state of the team: the mean over its aircraft, in which a dead one counts 0. A term
pays discount * potential after - potential before, and a state in which the fight is over has none; where
it is cut, the state keeps its potential, as it keeps its value.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from navrl.envs.combat.rewards import mean_of, members
from navrl.envs.combat.sim.reach import ReachTable, reach_table
from navrl.envs.combat.sim.relative import aircraft, focal_enemy, incoming_missile, look
from navrl.envs.combat.sim.spacetime import best_defence_margin_m
from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.envs.core.rewards import Transition

READS = CombatParams  # what an env has that these terms read
Potential = Callable[[CombatState, int], Tensor]  # of one aircraft, (N,)


def attack(transition: Transition, *, discount: float, near_m: float, scale_m: float) -> Tensor:
    """Potential of pointing at an enemy that is near."""

    def potential(state: CombatState, me: int) -> Tensor:
        view = look(aircraft(state, me), focal_enemy(transition.params, state, me))
        far_m = (view.range_m - near_m).clamp_min(0.0)
        return 0.5 * (1.0 + view.cos_bearing) * torch.exp(-far_m / scale_m)

    return _difference(transition, potential, discount)


def evade(transition: Transition, *, discount: float, scale_s: float) -> Tensor:
    """Potential of having no enemy missile close in time."""

    def potential(state: CombatState, me: int) -> Tensor:
        threat = incoming_missile(transition.params, state, me)
        return -(threat.active * torch.exp(-threat.view.time_to_go_s / scale_s))

    return _difference(transition, potential, discount)


class Defend:
    """Potential of being where a missile launched now could be outrun."""

    def __init__(self, *, discount: float, scale_m: float) -> None:
        self.discount, self.scale_m = discount, scale_m
        self.table: ReachTable | None = None

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build the table of what the missiles reach."""
        self.table = reach_table(params, device)

    def __call__(self, transition: Transition) -> Tensor:
        """What the better escape has to spare, from -1 to 1."""
        table = self.table
        if table is None:
            raise RuntimeError("Defend has no table yet; call prepare(params, device) first")

        def potential(state: CombatState, me: int) -> Tensor:
            margin_m = best_defence_margin_m(transition.params, table, state, me)
            return (margin_m / self.scale_m).clamp(-1.0, 1.0)

        return _difference(transition, potential, self.discount)


def _difference(transition: Transition, potential: Potential, discount: float) -> Tensor:
    before, after = (
        mean_of(state.aircraft.alive[me] * potential(state, me) for me in members(transition))
        for state in (transition.before, transition.after)
    )
    return discount * after * ~transition.terminated - before
