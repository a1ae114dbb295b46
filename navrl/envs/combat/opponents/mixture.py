"""`mixture`: every episode draws one of several pilots, the same for a whole team."""

from collections.abc import Mapping

import torch
from torch import Tensor

from navrl.envs.combat.opponents.base import Command, Pilot, team_key
from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.envs.core import random
from navrl.envs.core.weights import Weights


class Mixture(Pilot):
    """All pilots think in every env, the drawn one is obeyed: no branch, no host synchronisation."""

    def __init__(self, *, pilots: Mapping[str, Pilot], weights: Mapping[str, float]) -> None:
        self.pilots = dict(pilots)
        for name, pilot in self.pilots.items():
            if not pilot.compilable:
                raise ValueError(
                    f"opponent.pilots.{name} holds networks; expected scripted pilots in a mixture; use "
                    "opponent=checkpoint or a league"
                )
        nobody = torch.zeros(0, dtype=torch.int64)
        self.sizes = [len(pilot.initial(nobody)) for pilot in self.pilots.values()]  # of memories
        self.weights = Weights(names=self.pilots, weights=weights, setting="opponent.weights")

    @property
    def names(self) -> tuple[str, ...]:
        """What it draws from."""
        return self.weights.names

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """From the next episode of each env on, draw the pilots this often."""
        self.weights.set(weights)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """The weights, and what the pilots hold."""
        self.weights.to(device)
        for pilot in self.pilots.values():
            pilot.prepare(params, device)

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """The choice of the episode, then the memories of all pilots."""
        choice = self.weights.choose(random.uniform(team_key(key), random.LEAGUE, 1)[0])
        memories = [field for pilot in self.pilots.values() for field in pilot.initial(key)]
        return (choice, *memories)

    def tag(self, memory: tuple[Tensor, ...]) -> Tensor:
        """The index of the drawn pilot, (N,)."""
        return memory[0]

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of the drawn pilot."""
        choice, rest = memory[0], list(memory[1:])
        chosen: Command | None = None
        kept: list[Tensor] = []
        for index, (pilot, size) in enumerate(zip(self.pilots.values(), self.sizes, strict=True)):
            command, after = pilot.act(params, state, me, tuple(rest[:size]))
            kept, rest = kept + list(after), rest[size:]
            mine = choice == index
            chosen = (
                command
                if chosen is None
                else Command(
                    *(torch.where(mine, a, b) for a, b in zip(command[:3], chosen[:3], strict=True))
                )
            )
        assert chosen is not None, "the weights name at least one pilot"
        return chosen, (choice, *kept)
