"""Reward terms of air combat: outcomes, events, potentials, and the terms of the original system.

A term is a function of one `Transition` that returns one number per env, (N,). To add one, write the function
here and name it in a file of conf/reward with its weight: it is then logged as `reward/<name>`. A term that
needs tables is a class with `prepare` and `__call__`, such as `Defend`.

Terms belong to a team: events count per aircraft of it, so that a weight means the same in any team size.
With `transition.agent` they are of that aircraft alone, but for what the team shares: outcome, draw, timeout.
"""

import functools
import operator
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from navrl.envs.combat.sim.geometry import View, aircraft, focal_enemy, incoming_missile, look
from navrl.envs.combat.sim.reach import ReachTable, reach_table
from navrl.envs.combat.sim.spacetime import best_defence_margin_m
from navrl.envs.combat.sim.state import CombatParams, CombatState, winner_sign
from navrl.envs.core.rewards import Transition

# A configuration may name these.
__all__ = [
    "Defend",
    "attack",
    "closeness",
    "defeated",
    "draw",
    "evade",
    "get_hit",
    "hit",
    "launch",
    "outcome",
    "pointing",
    "presence",
    "spared",
    "survive",
    "timeout",
]

READS = CombatParams  # the simulator constants that these terms read
Potential = Callable[[CombatState, int], Tensor]  # of one aircraft, (N,)


# ---- outcomes ------------------------------------------------------------------------------------


def outcome(transition: Transition) -> Tensor:
    """Return +1 for a win, -1 for a loss, 0 for a draw, on the terminal step only; 0 at a time limit."""
    params: CombatParams = transition.params
    return winner_sign(params, transition.after, transition.team) * transition.terminated


def draw(transition: Transition) -> Tensor:
    """Return 1 where the fight is over without a winner."""
    sign = winner_sign(transition.params, transition.after, transition.team)
    return (transition.terminated & (sign == 0)).float()


def timeout(transition: Transition) -> Tensor:
    """Return 1 where the fight is truncated: at the time limit, or because everybody has left."""
    return transition.truncated.float()


def spared(transition: Transition) -> Tensor:
    """Return, on a win, the share of the team's missiles that its living still carry; 1 if unlimited."""
    craft = transition.after.aircraft
    left = per_member(transition, craft.alive * craft.rounds) / transition.params.rounds
    return left * outcome(transition).clamp_min(0.0)


# ---- events --------------------------------------------------------------------------------------


def launch(transition: Transition) -> Tensor:
    """Return 1 for every missile launched; give it a negative weight to save missiles."""
    return per_member(transition, transition.events.launched)


def hit(transition: Transition) -> Tensor:
    """Return 1 for every aircraft whose missile has killed."""
    return per_member(transition, transition.events.hit)


def get_hit(transition: Transition) -> Tensor:
    """Return 1 for every aircraft killed."""
    return per_member(transition, transition.events.killed)


def defeated(transition: Transition) -> Tensor:
    """Return 1 for every aircraft at which a missile has ended without a hit."""
    return per_member(transition, transition.events.defeated)


# ---- potentials: they telescope, so they cannot change the best policy -----------------------------


def attack(transition: Transition, *, discount: float, near_m: float, scale_m: float) -> Tensor:
    """Reward a rising potential of pointing at an enemy that is near."""

    def potential(state: CombatState, me: int) -> Tensor:
        view = look(aircraft(state, me), focal_enemy(transition.params, state, me))
        far_m = (view.range_m - near_m).clamp_min(0.0)
        return 0.5 * (1.0 + view.cos_bearing) * torch.exp(-far_m / scale_m)

    return _difference(transition, potential, discount)


def evade(transition: Transition, *, discount: float, scale_s: float) -> Tensor:
    """Reward a rising potential of having no enemy missile close in time."""

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
        """Build the table of the missiles' reach."""
        self.table = reach_table(params, device)

    def __call__(self, transition: Transition) -> Tensor:
        """Reward a rising margin of the better escape, clipped to -1 .. 1 scale_m."""
        table = self.table
        if table is None:
            raise RuntimeError("Defend has no table yet; call prepare(params, device) first")

        def potential(state: CombatState, me: int) -> Tensor:
            margin_m = best_defence_margin_m(transition.params, table, state, me)
            return (margin_m / self.scale_m).clamp(-1.0, 1.0)

        return _difference(transition, potential, self.discount)


def _difference(transition: Transition, potential: Potential, discount: float) -> Tensor:
    """Return discount * potential after - potential before, of the team's mean; the dead count 0.

    A state in which the fight is over has no potential. A truncated one keeps its potential, as it keeps its
    value.
    """
    before, after = (
        mean_of(state.aircraft.alive[me] * potential(state, me) for me in members(transition))
        for state in (transition.before, transition.after)
    )
    return discount * after * ~transition.terminated - before


# ---- the original system's terms: they invite to circle behind an enemy, or to do nothing at all ---


def survive(transition: Transition, *, frames_per_s: float) -> Tensor:
    """Count the frames of the original's display while alive and before the episode's end."""
    frames = frames_per_s * transition.params.step_s
    done = transition.terminated | transition.truncated
    return frames * per_member(transition, transition.after.aircraft.alive) * ~done


def presence(transition: Transition) -> Tensor:
    """Return 1 while alive; 0 where a side has won, as in the next two."""
    return per_member(transition, transition.after.aircraft.alive) * _unwon(transition)


def pointing(transition: Transition) -> Tensor:
    """Return the cosine of the enemy's bearing."""
    rows = [alive * view.cos_bearing for alive, view in _views(transition)]
    return mean_of(rows) * _unwon(transition)


def closeness(transition: Transition, *, scale_m: float) -> Tensor:
    """Return 1 at the enemy's place, falling by 1 with every scale_m."""
    rows = [alive * (1.0 - view.range_m / scale_m) for alive, view in _views(transition)]
    return mean_of(rows) * _unwon(transition)


def _unwon(transition: Transition) -> Tensor:
    return outcome(transition) == 0


def _views(transition: Transition) -> list[tuple[Tensor, View]]:
    """Return, for every aircraft of the team, whether it is alive and its view of the nearest enemy."""
    params, state = transition.params, transition.after
    return [
        (state.aircraft.alive[me], look(aircraft(state, me), focal_enemy(params, state, me)))
        for me in members(transition)
    ]


# ---- a team's aircraft ---------------------------------------------------------------------------


def members(transition: Transition) -> range:
    """Return the indices of the team's aircraft, or of the one that is rewarded."""
    size, agent = transition.params.team_size, transition.agent
    everybody = range(transition.team * size, (transition.team + 1) * size)
    return everybody if agent is None else everybody[agent : agent + 1]


def per_member(transition: Transition, rows: Tensor) -> Tensor:
    """Average rows (A, N) of all aircraft over the team's: (N,)."""
    return mean_of(rows[me].float() for me in members(transition))


def mean_of(rows: Iterable[Tensor]) -> Tensor:
    """Average some (N,), written out: compilers turn a reduction of a few rows into slow code."""
    all_rows = list(rows)
    return functools.reduce(operator.add, all_rows) * (1.0 / len(all_rows))
