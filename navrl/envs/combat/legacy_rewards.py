"""What the original system paid for: it invites to circle behind an enemy, or to do nothing at all."""

from torch import Tensor

from navrl.envs.combat.rewards import mean_of, members, outcome, per_member
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.relative import View, aircraft, focal_enemy, look
from navrl.envs.core.rewards import Transition

READS = CombatParams  # what an env has that these terms read


def survive(transition: Transition, *, frames_per_s: float) -> Tensor:
    """The frames of the original's display in which one was alive and the episode went on."""
    frames = frames_per_s * transition.params.step_s
    done = transition.terminated | transition.truncated
    return frames * per_member(transition, transition.after.aircraft.alive) * ~done


def presence(transition: Transition) -> Tensor:
    """1 while alive; the outcome takes its place where somebody has won, as below."""
    return per_member(transition, transition.after.aircraft.alive) * _unwon(transition)


def pointing(transition: Transition) -> Tensor:
    """Cosine of the enemy's bearing."""
    rows = [alive * view.cos_bearing for alive, view in _views(transition)]
    return mean_of(rows) * _unwon(transition)


def closeness(transition: Transition, *, scale_m: float) -> Tensor:
    """1 at the enemy's place, falling by 1 with every scale_m."""
    rows = [alive * (1.0 - view.range_m / scale_m) for alive, view in _views(transition)]
    return mean_of(rows) * _unwon(transition)


def _unwon(transition: Transition) -> Tensor:
    return outcome(transition) == 0


def _views(transition: Transition) -> list[tuple[Tensor, View]]:
    """Of every aircraft of the team: alive, and its view of the nearest enemy."""
    params, state = transition.params, transition.after
    views = [
        look(aircraft(state, me), focal_enemy(params, state, me)) for me in members(transition)
    ]
    return list(zip((state.aircraft.alive[me] for me in members(transition)), views, strict=True))
