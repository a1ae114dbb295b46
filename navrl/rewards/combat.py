"""Reward terms of air combat, for aircraft 0; potentials telescope, so they cannot change the best policy."""

import torch
from torch import Tensor

from navrl.rewards.base import Transition
from navrl.sims.combat_state import CombatParams, CombatState, enemies_of, winner_sign
from navrl.sims.relative import aircraft, incoming_missile, look

_LEARNER = 0


def outcome(transition: Transition) -> Tensor:
    """+1 for a win, -1 for a loss, 0 for a draw, on the terminal step only; nothing at a time limit."""
    params: CombatParams = transition.params
    sign = winner_sign(params, transition.after, params.teams[_LEARNER])
    return sign * transition.terminated


def attack(transition: Transition, *, discount: float, near_m: float, scale_m: float) -> Tensor:
    """Potential of pointing at an enemy that is near."""

    def potential(state: CombatState) -> Tensor:
        enemy = enemies_of(transition.params, _LEARNER)[0]
        view = look(aircraft(state, _LEARNER), aircraft(state, enemy))
        far_m = (view.range_m - near_m).clamp_min(0.0)
        return 0.5 * (1.0 + view.cos_bearing) * torch.exp(-far_m / scale_m)

    return _difference(
        transition, potential(transition.before), potential(transition.after), discount
    )


def evade(transition: Transition, *, discount: float, scale_s: float) -> Tensor:
    """Potential of having no enemy missile close in time."""

    def potential(state: CombatState) -> Tensor:
        threat = incoming_missile(transition.params, state, _LEARNER)
        return -(threat.active * torch.exp(-threat.view.time_to_go_s / scale_s))

    return _difference(
        transition, potential(transition.before), potential(transition.after), discount
    )


def launch(transition: Transition) -> Tensor:
    """1 for every missile launched; give it a negative weight to save missiles."""
    return transition.events.launched[_LEARNER].float()


def _difference(transition: Transition, before: Tensor, after: Tensor, discount: float) -> Tensor:
    """discount * potential after - potential before, where a terminal state has no potential."""
    return discount * after * ~transition.terminated - before
