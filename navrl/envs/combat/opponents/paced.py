"""`Paced`: a pilot that decides less often than the env, and holds its controls between.

`navrl play` steps many times a second, so that a person can steer; scripts and policies keep their rhythm.
"""

import torch
from torch import Tensor

from navrl.config.checks import require_number
from navrl.envs.combat.opponents.base import NEAREST, Memory, Pilot, target_of
from navrl.envs.combat.opponents.frozen import Frozen
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command


class Paced(Pilot):
    """A pilot that decides every `decision_s` of game time; it sees the constants of an env that does."""

    compilable = False  # whether anybody decides is asked on the host, which saves most of the work

    def __init__(self, *, pilot: Pilot, decision_s: float) -> None:
        require_number("decision_s", decision_s, above=0.0)
        self.pilot, self.decision_s = pilot, decision_s

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Prepare the pilot."""
        self.pilot.prepare(self._slower(params), device)

    def initial(self, key: Tensor) -> Memory:
        """Return the controls that it holds, then the memory of the pilot."""
        rudder = torch.zeros_like(key, dtype=torch.float32)
        target = torch.full_like(key, NEAREST, dtype=torch.int32)
        return (rudder, torch.ones_like(rudder), target, *self.pilot.initial(key))

    def tag(self, memory: Memory) -> Tensor | int:
        """Return the number of the pilot that acts."""
        return self.pilot.tag(memory[3:])

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return what the pilot decides, or what it decided last; the trigger works when it decides."""
        every = self._every(params)
        due = state.decision % every == 0
        rudder, throttle, target, *rest = memory
        if not bool(due.any()):
            return Command(rudder, throttle, torch.zeros_like(due), target), memory
        slowed = state._replace(decision=state.decision // every)
        new, after = self.pilot.act(self._slower(params), slowed, me, tuple(rest))
        chosen = (new.rudder, new.throttle, target_of(new), *after)
        held = tuple(torch.where(due, a, b) for a, b in zip(chosen, memory, strict=True))
        return Command(held[0], held[1], new.fire & due, held[2]), held

    def _every(self, params: CombatParams) -> int:
        return max(1, round(self.decision_s / params.step_s))

    def _slower(self, params: CombatParams) -> CombatParams:
        every = self._every(params)
        return params._replace(decision_s=params.decision_s * every)


def network_of(pilot: Pilot) -> Frozen | None:
    """Return the trained policy that flies, if one does."""
    inner = pilot.pilot if isinstance(pilot, Paced) else pilot
    return inner if isinstance(inner, Frozen) else None
