"""`league`: scripted pilots, and frozen policies that a curriculum assigns to blocks of envs.

Blocks are contiguous, so that any number of policies costs one forward pass over all envs per step. Every
pilot has a tag: scripts their index, policies larger numbers.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from navrl.envs.combat.actions import ActionKind
from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.opponents.base import Memory, Pilot, target_of
from navrl.envs.combat.opponents.frozen import Decision, PolicyAdapter
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.sim.state import CombatParams, CombatState, Command, select
from navrl.envs.core.compiling import CompiledEach
from navrl.envs.core.weights import Weighted
from navrl.ranks.noise import Rows, rows_for

SCRIPTED = -1  # the tag of an env without a policy: the episode's script flies
CHANGED = -2  # the tag of an episode whose env got another policy on the way


class Block(NamedTuple):
    """The envs [start, stop) of one policy, of all envs of the run."""

    start: int
    stop: int
    policy: Any
    tag: int


class League(Weighted, Pilot):
    """Scripts in every env without a policy; `assign` gives policies to the others."""

    compilable = False

    def __init__(
        self,
        *,
        scripts: Mixture,
        observation: Observation,
        action: ActionKind,
        compile_mode: str | bool,
    ) -> None:
        self.scripts, self.weights = scripts, scripts.weights
        self.blocks: list[Block] = []
        self._graph: tuple[list[Any], Decision] | None = None  # and the blocks that it is of
        self._adapter = PolicyAdapter(
            observation=observation, action=action, compile_mode=compile_mode
        )
        self._act = CompiledEach(self._scripted, compile_mode)
        # Written in place: the compiled step has those of the own envs, which are parts of the others.
        self._all_tags = self._tags = torch.zeros(
            0, dtype=torch.int32
        )  # (N,) the pilot of each env
        self._all_changes = self._changes = torch.zeros(
            0, dtype=torch.int32
        )  # how often that changed
        self._rows = Rows(0, 0, 0, 0)

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Prepare the scripts and the observation."""
        self.scripts.prepare(params, device)
        self._adapter.prepare(params, device)

    def allocate(self, num_envs: int, device: torch.device | str) -> None:
        """Make room for this many envs, all of them scripted."""
        self.blocks, self._rows = [], rows_for(num_envs)
        first, own, total, _ = self._rows
        self._all_tags = torch.full((total,), SCRIPTED, dtype=torch.int32, device=device)
        self._all_changes = torch.zeros_like(self._all_tags)
        self._tags, self._changes = (
            rows[first : first + own] for rows in (self._all_tags, self._all_changes)
        )

    def assign(self, blocks: Sequence[Block]) -> None:
        """Assign the policies; episodes under way continue against the new pilot of their env."""
        self.blocks = list(blocks)
        tags = torch.full_like(self._all_tags, SCRIPTED)
        for block in self.blocks:
            tags[block.start : block.stop] = block.tag
        self._all_changes.add_(tags != self._all_tags)
        self._all_tags.copy_(tags)

    @contextmanager
    def scripts_only(self) -> Iterator[None]:
        """Fly scripts in all envs inside the context, for other episodes; then restore the blocks."""
        kept = self.blocks, self._all_tags.clone(), self._all_changes.clone()
        self.assign([])
        try:
            yield
        finally:
            self.blocks = kept[0]
            self._all_tags.copy_(kept[1])
            self._all_changes.copy_(kept[2])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts that episodes under way are compared with; the blocks belong to the caller."""
        return {"changes": self._all_changes.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what state_dict returned, once the blocks are assigned again."""
        # With another number of envs all episodes begin anew, with no past.
        if state["changes"].shape == self._all_changes.shape:
            self._all_changes.copy_(state["changes"])

    def initial(self, key: Tensor) -> Memory:
        """Return the changes until the episode began, then the memories of the scripts."""
        memory = self.scripts.initial(key)
        began = self._changes.clone() if self._allocated else torch.zeros_like(memory[0])
        return (began, *memory)

    def tag(self, memory: Memory) -> Tensor:
        """Return the tag of the pilot of the whole episode, (N,)."""
        began, script = memory[0], memory[1]
        if not self._allocated:
            return script
        pilot = torch.where(self._tags == SCRIPTED, script, self._tags)
        return torch.where(began == self._changes, pilot, CHANGED)

    @property
    def _allocated(self) -> bool:
        return self._tags.shape[0] > 0

    def act(
        self, params: CombatParams, state: CombatState, me: int, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the command of the pilot of each env."""
        scripted, after = self._act(me, params, state, memory[1:])
        if not self.blocks:
            return scripted, (memory[0], *after)
        learned = self._decision()(self._adapter.observe(params, state, me))
        learned = learned._replace(target=target_of(learned))
        chosen = select(self._tags == SCRIPTED, scripted, learned)
        return chosen, (memory[0], *after)

    def _decision(self) -> Decision:
        """Return the graph of the blocks' policies, which serves for all their weights."""
        places = [(block.start, block.stop, block.policy) for block in self.blocks]
        if self._graph is None or self._graph[0] != places:
            head = self.blocks[0].policy.head
            self._graph = places, Decision(self._outputs, head, self._adapter)
        return self._graph[1]

    def _outputs(self, observed: TensorDict) -> Tensor:
        """Return the outputs of all policies, each in its own envs."""
        head = self.blocks[0].policy.head
        parts, edge = [], 0
        for block in [*self._own_blocks(), Block(len(observed), len(observed), None, SCRIPTED)]:
            if edge < block.start:  # scripts fly here
                parts.append(head.uniform.expand(block.start - edge, -1))
            if block.policy is not None:
                parts.append(block.policy.trunk(observed[block.start : block.stop]))
            edge = block.stop
        return torch.cat(parts)

    def _own_blocks(self) -> list[Block]:
        """Return the parts of all blocks in each shard of the own envs, which are numbered from 0."""
        first, own, _, piece = self._rows
        found = []
        for block in self.blocks:
            start, stop = max(block.start - first, 0), min(block.stop - first, own)
            # At the edges of shards too: a product of other rows would be rounded otherwise.
            edges = [start, *range((start // piece + 1) * piece, stop, piece), stop]
            pairs = itertools.pairwise(edges) if start < stop else ()
            found += [block._replace(start=a, stop=z) for a, z in pairs]
        return found

    def _scripted(
        self, me: int, params: CombatParams, state: CombatState, memory: Memory
    ) -> tuple[Command, Memory]:
        """Return the scripts' command with a target: the env's graph is made for one kind of command."""
        command, after = self.scripts.act(params, state, me, memory)
        return command._replace(target=target_of(command)), after
