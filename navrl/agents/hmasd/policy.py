"""The policy of a team with skills: it chooses some when they are due, and acts by them."""

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.core.team import GROUP, in_group, state_of
from navrl.agents.hmasd import timing
from navrl.agents.hmasd.coordinator import Coordinator, UniformSkills
from navrl.agents.hmasd.discoverer import Actor
from navrl.agents.hmasd.timing import Memory
from navrl.agents.networks.distributions import ActionDistribution

SKILLS = "skill"  # the group (N,) of what is known of skills in a rollout
_HANDED_ON = tuple((SKILLS, name) for name in Memory._fields)
HIDDEN = (GROUP, "hidden")  # what an actor with a memory remembered before the step


class HierarchicalPolicy(TensorDictModuleBase):
    """Observations to skills and actions; `version` counts updates.

    It remembers nothing itself. What it needs next it writes under "next", from where an env hands it on,
    as zeros when an episode begins; so many envs, other envs and resumed runs share one policy.
    """

    def __init__(
        self,
        *,
        coordinator: Coordinator | UniformSkills,
        actor: Actor,
        interval: int,
        num_agents: int,
        also_told: Sequence[NestedKey],
    ) -> None:
        super().__init__()
        self.coordinator, self.actor = coordinator, actor
        self.interval, self.num_agents, self.version = interval, num_agents, 0
        leaves = {*actor.view.leaves, *getattr(coordinator, "view", actor.view).leaves}
        told = [("observation", leaf) for leaf in sorted(leaves)]
        self.in_keys = [*also_told, *in_group(GROUP, *told)]
        self.out_keys = [
            *in_group(GROUP, "skill", "action", "action_log_prob"),
            *_HANDED_ON,
            *((SKILLS, name) for name in ("reason", "log_prob")),
            *(("next", *key) for key in _HANDED_ON),
        ]
        if actor.memory.size:
            self.out_keys += [HIDDEN, ("next", *HIDDEN)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take what is most probable under ExplorationType.DETERMINISTIC."""
        best = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        frames, memory = tensordict.get(GROUP), self._memory(tensordict)
        reason = timing.reasons(memory, interval=self.interval, version=self.version)
        due = reason != timing.NONE
        log_prob = torch.zeros_like(memory.chosen, dtype=torch.float32)
        # On a CPU it costs nothing to ask whether anybody needs skills; a GPU would have to be waited for.
        if due.device.type != "cpu" or bool(due.any()):
            choice = self.coordinator.act(state_of(tensordict), frames, deterministic=best)
            memory = timing.renewed(memory, due, choice.skills, version=self.version)
            log_prob = torch.where(due, choice.log_prob, 0.0)
        skill = individual_skills(memory.chosen, self.num_agents)
        dist = self._act(tensordict, frames, skill)
        action = dist.deterministic_sample if best else dist.sample()
        for name, value in (("skill", skill), ("action", action)):
            frames.set(name, value)
        frames.set("action_log_prob", dist.log_prob(action))
        after = memory._replace(timer=memory.timer + 1)
        for key, now, then in zip(_HANDED_ON, memory, after, strict=True):
            tensordict.set(key, now)
            tensordict.set(("next", *key), then)
        tensordict.set((SKILLS, "reason"), reason)
        return tensordict.set((SKILLS, "log_prob"), log_prob)

    def _act(
        self, tensordict: TensorDictBase, frames: TensorDictBase, skill: Tensor
    ) -> ActionDistribution:
        """The actor's distribution; its memory goes the way of the skills."""
        size = self.actor.memory.size
        hidden = tensordict.get(HIDDEN, None)
        if hidden is None:
            hidden = torch.zeros(*skill.shape, size, device=skill.device)
        dist, after = self.actor.step(frames, skill, hidden)
        if size:
            tensordict.set(HIDDEN, hidden)
            tensordict.set(("next", *HIDDEN), after)
        return dist

    def _memory(self, tensordict: TensorDictBase) -> Memory:
        """What the step before handed on; nothing where there was none."""
        found = [tensordict.get(key, None) for key in _HANDED_ON]
        if found[0] is None:
            device = self.actor.out.weight.device
            return timing.fresh(tensordict.batch_size[0], self.coordinator.positions, device)
        return Memory(*found)


def individual_skills(chosen: Tensor, num_agents: int) -> Tensor:
    """The skill of every agent (..., A) by those of all positions; the team's, if only that was chosen."""
    if chosen.shape[-1] == 1:
        return chosen.expand(*chosen.shape[:-1], num_agents).clone()
    return chosen[..., 1:]
