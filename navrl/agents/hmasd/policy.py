"""The policy of a team with skills: it chooses new skills when a decision is due, and acts by them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.core.team import GROUP, in_group, state_of
from navrl.agents.fast.products import for_few_rows
from navrl.agents.hmasd.high_level import Coordinator, SkillChoice, UniformSkills
from navrl.agents.hmasd.low_level import Actor
from navrl.agents.hmasd.rollout import INTERVAL, KEPT, RESET, ROLLOUT_START, SKILLS
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.memory import HIDDEN
from navrl.envs.core.compiling import CompiledSample
from navrl.ranks import noise
from navrl.storage.schema import Rule, numbers


class SkillMemory(NamedTuple):
    """The state of the policy from step to step; envs make it all zeros where an episode ended."""

    chosen: Tensor  # int64 (N, positions), the skills
    timer: Tensor  # int64 (N, 1), steps since they were chosen
    stamp: Tensor  # int64 (N, 1), the policy version that chose them, plus 1; 0: no skills yet


_MEMORY = tuple((SKILLS, name) for name in SkillMemory._fields)
_HIDDEN = (GROUP, HIDDEN)
_FEW_ROWS = 256  # agents; for more oneDNN is as fast or faster


def reasons(memory: SkillMemory, *, interval: int, version: int) -> Tensor:
    """Return the reason of each env for a decision at this step, uint8 (N, 1).

    A new version always chooses again, so every step of a rollout belongs to a decision of the policy that
    collected it: that makes high-level learning on-policy.
    """
    over = torch.where(memory.timer >= interval, INTERVAL, KEPT)
    foreign = torch.where(memory.stamp != version + 1, ROLLOUT_START, over)
    return torch.where(memory.stamp == 0, RESET, foreign).to(torch.uint8)


class HierarchicalPolicy(TensorDictModuleBase):
    """Observations to skills and actions; `version` counts updates.

    The module has no state of its own. The memory after a step is written under "next"; from there an env
    carries it to the next step, as zeros when an episode begins; so many envs, other envs and resumed runs
    share one policy.
    """

    def __init__(
        self,
        *,
        coordinator: Coordinator | UniformSkills,
        actor: Actor,
        interval: int,
        num_agents: int,
        extra_keys: Sequence[NestedKey],
        compile_mode: str | bool,
    ) -> None:
        super().__init__()
        self.coordinator, self.actor = coordinator, actor
        self.interval, self.num_agents, self.version = interval, num_agents, 0
        leaves = [("observation", leaf) for leaf in sorted(actor.encoder.leaves)]
        mask = ["action_mask"] if (GROUP, "action_mask") in extra_keys else []
        self._observed: list[NestedKey] = [*leaves]  # by the coordinator, of an agent's frame
        self._read: list[NestedKey] = [*leaves, *mask]  # by the actor
        self.in_keys = [*extra_keys, *in_group(GROUP, *leaves)]
        self.out_keys = [
            *in_group(GROUP, "skill", "action", "action_log_prob"),
            *_MEMORY,
            *((SKILLS, name) for name in ("reason", "log_prob")),
            *(("next", *key) for key in _MEMORY),
        ]
        if actor.memory.size:
            self.out_keys += [_HIDDEN, ("next", *_HIDDEN)]
        self._choose = CompiledSample(self._choose_eager, compile_mode, any_rows=True)
        self._sample = CompiledSample(self._sample_eager, compile_mode)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take the most probable skills and actions under ExplorationType.DETERMINISTIC."""
        with for_few_rows(_are_few(tensordict.get(GROUP))):
            return self._forward(tensordict)

    def _forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        frames = tensordict.get(GROUP)
        if exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE):
            dist = self.distribution(tensordict, deterministic=True)
            action = dist.deterministic_sample
            log_prob = dist.log_prob(action)
        else:  # the path of a collector at every step
            skill, hidden = self._prepare(tensordict, deterministic=False)
            columns = [frames.get(key) for key in self._read]
            action, log_prob, after = self._sample(skill, hidden, *columns)
            self._remember(tensordict, hidden, after)
        frames.set("action", action)
        frames.set("action_log_prob", log_prob)
        return tensordict

    def distribution(
        self, tensordict: TensorDictBase, *, deterministic: bool
    ) -> ActionDistribution:
        """Return the distribution of the actions under skills that are chosen where a decision is due.

        Skills and decisions are written to the TensorDict, the memory after the step under its "next".
        """
        skill, hidden = self._prepare(tensordict, deterministic=deterministic)
        dist, after = self.actor.step(tensordict.get(GROUP), skill, hidden)
        self._remember(tensordict, hidden, after)
        return dist

    def _prepare(self, tensordict: TensorDictBase, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        """Return the skills of the agents, which are written, and the actor's hidden state."""
        memory = self._decide(tensordict, deterministic=deterministic)
        skill = individual_skills(memory.chosen, self.num_agents)
        tensordict.get(GROUP).set("skill", skill)
        hidden = tensordict.get(_HIDDEN, None)
        if hidden is None:
            hidden = torch.zeros(*skill.shape, self.actor.memory.size, device=skill.device)
        return skill, hidden

    def _remember(self, tensordict: TensorDictBase, hidden: Tensor, after: Tensor) -> None:
        """Write the actor's hidden state before and after the step, if it has one."""
        if self.actor.memory.size:
            tensordict.set(_HIDDEN, hidden)
            tensordict.set(("next", *_HIDDEN), after)

    def _sample_eager(
        self, skill: Tensor, hidden: Tensor, *columns: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return action, log-probability and the hidden state after the step."""
        dist, after = self.actor.step(self._frames(self._read, columns), skill, hidden)
        action = dist.sample()
        return action, dist.log_prob(action), after

    def _choose_eager(
        self, drawn: Tensor, state: Tensor, *columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return skills and their log-probabilities."""
        frames = self._frames(self._observed, columns)
        skills, log_prob = self.coordinator.act(state, frames, deterministic=False, drawn=drawn)
        return skills, log_prob

    @staticmethod
    def _frames(keys: Sequence[NestedKey], columns: Sequence[Tensor]) -> TensorDict:
        return TensorDict(dict(zip(keys, columns, strict=True)))

    def _decide(self, tensordict: TensorDictBase, *, deterministic: bool) -> SkillMemory:
        """Choose new skills where a decision is due; write the decision and the memory."""
        memory = self._memory(tensordict)
        reason = reasons(memory, interval=self.interval, version=self.version)
        due = reason != KEPT
        log_prob = torch.zeros_like(memory.chosen, dtype=torch.float32)
        rows = _rows_to_decide(due)
        somebody = rows is None or len(rows) > 0
        # Also where nobody decides in a run of several shards: another rank may, and all draw for all envs.
        draws = not deterministic and (somebody or not _is_one_shard(due.shape[0]))
        drawn = self.coordinator.drawn(due.shape[0]) if draws else None
        if somebody:
            frames = tensordict.get(GROUP)
            columns = [state_of(tensordict), *(frames.get(key) for key in self._observed)]
            choice = self._choice(drawn, rows, columns)
            if rows is not None:  # of some envs
                choice = SkillChoice(
                    memory.chosen.index_copy(0, rows, choice.skills),
                    log_prob.index_copy(0, rows, choice.log_prob),
                )
            memory = SkillMemory(
                torch.where(due, choice.skills, memory.chosen),
                torch.where(due, 0, memory.timer),
                torch.where(due, self.version + 1, memory.stamp),
            )
            log_prob = torch.where(due, choice.log_prob, 0.0)
        after = memory._replace(timer=memory.timer + 1)
        for key, now, then in zip(_MEMORY, memory, after, strict=True):
            tensordict.set(key, now)
            tensordict.set(("next", *key), then)
        tensordict.set((SKILLS, "reason"), reason)
        tensordict.set((SKILLS, "log_prob"), log_prob)
        return memory

    def _choice(
        self, drawn: Tensor | None, rows: Tensor | None, columns: Sequence[Tensor]
    ) -> SkillChoice:
        """Return skills of these rows, or of all, by random numbers; without any, the most probable."""
        if rows is not None:
            columns = [column[rows] for column in columns]
            drawn = None if drawn is None else drawn[rows]
        if drawn is None:
            state, *observed = columns
            frames = self._frames(self._observed, observed)
            return self.coordinator.act(state, frames, deterministic=True)
        return SkillChoice(*self._choose(drawn, *columns))

    def memory_schema(self, num_envs: int) -> dict[str, Any]:
        """Return what memory in a checkpoint is compared with: skills that there are."""
        counts = torch.tensor(self.coordinator.num_skills)
        places = numbers(torch.int64, [num_envs, len(counts)], least=0)
        chosen = Rule(
            f"{places.expected}, below {counts.tolist()}",
            lambda found: places.fits(found) and bool((found < counts).all()),
        )
        steps = numbers(torch.int64, [num_envs, 1], least=0)
        return {SKILLS: {"chosen": chosen, "timer": steps, "stamp": steps}}

    def _memory(self, tensordict: TensorDictBase) -> SkillMemory:
        """Return the memory of the step before; zeros where there was none."""
        memory = [tensordict.get(key, None) for key in _MEMORY]
        if memory[0] is not None:
            return SkillMemory(*memory)
        shape = (tensordict.batch_size[0], self.coordinator.positions)
        zeros = torch.zeros(shape, dtype=torch.int64, device=self.actor.out.weight.device)
        return SkillMemory(zeros, zeros[:, :1], zeros[:, :1])


def _are_few(frames: TensorDictBase) -> bool:
    """Return whether frames (N, A) are few. Never where shards of a run have to be equal to the bit."""
    num_envs = frames.shape[0] if frames.ndim else 1
    few = frames.numel() <= _FEW_ROWS and not torch.compiler.is_exporting()
    return few and _is_one_shard(num_envs)


def _is_one_shard(num_envs: int) -> bool:
    """Return whether so many envs are all of their run, and learned from without shards."""
    rows = noise.rows_for(num_envs)
    return rows.piece == rows.total


def _rows_to_decide(due: Tensor) -> Tensor | None:
    """Return the envs that choose skills, where they are known and not all; None: all do.

    A CPU reads them at little cost; a GPU would have to be waited for, and a graph that leaves this process
    has no branch.
    """
    if due.device.type != "cpu" or torch.compiler.is_exporting():
        return None
    rows = due.squeeze(-1).nonzero().squeeze(-1)
    if len(rows) == due.shape[0]:
        return None
    # A graph for any number of rows has two or more.
    return rows.repeat(2) if len(rows) == 1 else rows


def individual_skills(chosen: Tensor, num_agents: int) -> Tensor:
    """Return the skill of every agent (..., A); the team's skill, if only that was chosen."""
    if chosen.shape[-1] == 1:
        return chosen.expand(*chosen.shape[:-1], num_agents).clone()
    return chosen[..., 1:]
