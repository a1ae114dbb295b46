"""`league`: scripted pilots and frozen policies; every env keeps a seat, and a seat may change its policy.

Envs are dealt to seats in blocks, so that however many policies are in play, every step costs one forward
pass over all envs. A pilot is known by its tag: scripts by their index, policies by larger numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.compiled import Compiled
from navrl.opponents.base import Command, Pilot
from navrl.opponents.frozen import Seat
from navrl.opponents.mixture import Mixture
from navrl.sims.combat_state import CombatParams, CombatState
from navrl.sims.observations.base import Observation

SCRIPTED = -1  # the tag of a seat without a policy: the episode's script flies
CHANGED = -2  # the tag of an episode whose seat got another policy on the way


class Block(NamedTuple):
    """The envs [start, stop) of one seat."""

    start: int
    stop: int
    policy: Any
    tag: int


class League(Pilot):
    """Scripts in every env without a policy; `seat` deals policies to the others."""

    compilable = False

    def __init__(
        self,
        *,
        scripts: Mixture,
        observation: Observation,
        action: Any,
        compile_mode: str | bool,
    ) -> None:
        self.scripts = scripts
        self.blocks: list[Block] = []
        self._seat = Seat(observation=observation, action=action, compile_mode=compile_mode)
        self._act = Compiled(scripts.act, compile_mode)
        self._tags = torch.zeros(0, dtype=torch.int32)

    @property
    def names(self) -> tuple[str, ...]:
        """The scripts."""
        return self.scripts.names

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Draw the scripts this often."""
        self.scripts.set_weights(weights)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """The scripts and the observation."""
        self.scripts.prepare(params, device)
        self._seat.prepare(params, device)

    def furnish(self, num_envs: int, device: torch.device | str) -> None:
        """Make room for so many envs, all of them scripted."""
        self.blocks = []
        self._tags = torch.full((num_envs,), SCRIPTED, dtype=torch.int32, device=device)

    def seat(self, blocks: Sequence[Block]) -> None:
        """Deal the policies; episodes under way go on against whoever now has their seat."""
        self.blocks = list(blocks)
        tags = torch.full_like(self._tags, SCRIPTED)
        for block in self.blocks:
            tags[block.start : block.stop] = block.tag
        self._tags.copy_(tags)

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """Who begins the episode, then the memories of the scripts."""
        memory = self.scripts.initial(key)
        seats = self._tags if self._furnished else torch.full_like(memory[0], SCRIPTED)
        return (seats.clone(), *memory)

    def tag(self, memory: tuple[Tensor, ...]) -> Tensor:
        """Who has flown the whole episode, (N,)."""
        began, script = memory[0], memory[1]
        if not self._furnished:
            return script
        return torch.where(
            began == self._tags, torch.where(began == SCRIPTED, script, began), CHANGED
        )

    @property
    def _furnished(self) -> bool:
        return self._tags.shape[0] > 0

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of whoever has the seat."""
        scripted, after = self._act(params, state, me, memory[1:])
        if not self.blocks:
            return scripted, (memory[0], *after)
        frames = self._seat.frames(params, state, me)
        rows: list[list[Tensor]] = [[], [], []]
        edge = 0
        for block in self.blocks:
            own = self._seat.command(block.policy, frames[block.start : block.stop])
            for row, script, value in zip(rows, scripted[:3], own[:3], strict=True):
                row += [script[edge : block.start], value]
            edge = block.stop
        for row, script in zip(rows, scripted[:3], strict=True):
            row.append(script[edge:])
        return Command(*(torch.cat(row) for row in rows)), (memory[0], *after)
