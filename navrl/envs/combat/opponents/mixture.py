"""`mixture`: every episode draws one of several pilots, the same for a whole team."""

from collections.abc import Mapping

import torch
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.envs.combat.opponents.base import Memory, Pilot, team_key
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command
from navrl.envs.core import random
from navrl.envs.core.weights import Weighted, Weights


class Mixture(Weighted, Pilot):
    """Several pilots that all act in every env; the drawn one counts: no branch, no host synchronisation."""

    def __init__(self, *, pilots: Mapping[str, Pilot], weights: Mapping[str, float]) -> None:
        self.pilots = dict(pilots)
        for name, pilot in self.pilots.items():
            if not pilot.compilable:
                raise ConfigError(
                    f"opponent.pilots.{name} holds networks; expected scripted pilots in a mixture; use "
                    "opponent=checkpoint or a league"
                )
        no_keys = torch.zeros(0, dtype=torch.int64)
        self.sizes = [len(pilot.initial(no_keys)) for pilot in self.pilots.values()]  # of memories
        self.weights: Weights = Weights(
            names=self.pilots, weights=weights, setting="opponent.weights"
        )

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Move the weights to the device and prepare the pilots."""
        self.weights.to(device)
        for pilot in self.pilots.values():
            pilot.prepare(params, device)

    def initial(self, key: Tensor) -> Memory:
        """Return the choice of the episode, then the memories of all pilots."""
        choice = self.weights.choose(random.uniform(team_key(key), random.LEAGUE, 1)[0])
        memories = [field for pilot in self.pilots.values() for field in pilot.initial(key)]
        return (choice, *memories)

    def tag(self, memory: Memory) -> Tensor:
        """Return the index of the drawn pilot, (N,)."""
        return memory[0]

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the command of the drawn pilot."""
        choice, rest = memory[0], memory[1:]
        commands, kept = [], [choice]
        for pilot, size in zip(self.pilots.values(), self.sizes, strict=True):
            command, after = pilot.act(params, state, me, rest[:size])
            commands.append(tuple(command[:3]))  # scripts name no target
            kept += after
            rest = rest[size:]
        chosen, *others = commands
        for index, other in enumerate(others, 1):
            pairs = zip(other, chosen, strict=True)
            chosen = tuple(torch.where(choice == index, mine, theirs) for mine, theirs in pairs)
        return Command(*chosen), tuple(kept)
