"""`league`: scripted pilots and frozen policies; every env keeps a seat, and a seat may change its policy.

Envs are dealt to seats in blocks, so that however many policies are in play, every step costs one forward
pass over all envs. A pilot is known by its tag: scripts by their index, policies by larger numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Command, Pilot
from navrl.envs.combat.opponents.frozen import Seat
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.envs.core.compiling import CompiledEach

SCRIPTED = -1  # the tag of a seat without a policy: the episode's script flies
CHANGED = -2  # the tag of an episode whose seat got another policy on the way
NEAREST = -1  # the target of who names none


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
        self._act = CompiledEach(self._scripted, compile_mode)
        # Both are written in place, because the compiled step has them by reference.
        self._tags = torch.zeros(0, dtype=torch.int32)  # (N,) who has the seat
        self._changes = torch.zeros(0, dtype=torch.int32)  # (N,) how often that was somebody else

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
        self._changes = torch.zeros_like(self._tags)

    def seat(self, blocks: Sequence[Block]) -> None:
        """Deal the policies; episodes under way go on against whoever now has their seat."""
        self.blocks = list(blocks)
        tags = torch.full_like(self._tags, SCRIPTED)
        for block in self.blocks:
            tags[block.start : block.stop] = block.tag
        self._changes.add_(tags != self._tags)
        self._tags.copy_(tags)

    @contextmanager
    def vacated(self) -> Iterator[None]:
        """Scripts everywhere, for other episodes; then the same seats, as if nothing had been."""
        kept = self.blocks, self._tags.clone(), self._changes.clone()
        self.seat([])
        try:
            yield
        finally:
            self.blocks = kept[0]
            self._tags.copy_(kept[1])
            self._changes.copy_(kept[2])

    def state_dict(self) -> dict[str, Tensor]:
        """What the episodes under way are compared with; who has which seat is the dealer's to know."""
        return {"changes": self._changes.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of state_dict, once the seats are dealt again."""
        if (
            state["changes"].shape == self._changes.shape
        ):  # else all episodes begin anew, with no past
            self._changes.copy_(state["changes"])

    def initial(self, key: Tensor) -> tuple[Tensor, ...]:
        """How often the seat had changed when the episode began, then the memories of the scripts."""
        memory = self.scripts.initial(key)
        began = self._changes.clone() if self._furnished else torch.zeros_like(memory[0])
        return (began, *memory)

    def tag(self, memory: tuple[Tensor, ...]) -> Tensor:
        """Who has flown the whole episode, (N,)."""
        began, script = memory[0], memory[1]
        if not self._furnished:
            return script
        seated = torch.where(self._tags == SCRIPTED, script, self._tags)
        return torch.where(began == self._changes, seated, CHANGED)

    @property
    def _furnished(self) -> bool:
        return self._tags.shape[0] > 0

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of whoever has the seat."""
        scripted, after = self._act(me, params, state, memory[1:])
        if not self.blocks:
            return scripted, (memory[0], *after)
        frames = self._seat.frames(params, state, me)
        with torch.no_grad():
            seated = _targeted(self._seat.command(self._distribution(frames)))
        vacant = self._tags == SCRIPTED
        pairs: Any = zip(scripted, seated, strict=True)  # all fields are there, target too
        chosen: list[Any] = [torch.where(vacant, *pair) for pair in pairs]
        return Command(*chosen), (memory[0], *after)

    def _distribution(self, frames: TensorDict) -> Any:
        """What the policies say, each in its own envs; one distribution is cheaper than one for each."""
        policy = self.blocks[0].policy
        parts, edge = [], 0
        for block in [*self.blocks, Block(len(frames), len(frames), None, SCRIPTED)]:
            if edge < block.start:  # scripts fly here
                parts.append(policy.head.uniform.expand(block.start - edge, -1))
            if block.policy is not None:
                parts.append(block.policy.trunk(frames[block.start : block.stop]))
            edge = block.stop
        return policy.head.distribution(torch.cat(parts), frames)

    def _scripted(
        self, me: int, params: CombatParams, state: CombatState, memory: tuple[Tensor, ...]
    ) -> tuple[Command, tuple[Tensor, ...]]:
        """The command of the scripts, with a target: the env's graph is made for one kind of command."""
        command, after = self.scripts.act(params, state, me, memory)
        return _targeted(command), after


def _targeted(command: Command) -> Command:
    """The command, with a target: who names none fires at the nearest."""
    if command.target is not None:
        return command
    return command._replace(target=torch.full_like(command.rudder, NEAREST, dtype=torch.int32))
