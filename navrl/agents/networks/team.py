"""Networks of agents that are not all alike: told who they are, an actor for each, a critic of the team."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import GROUP, TeamOptions, action_of, group_of
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.central import central_critic
from navrl.agents.networks.encoders import observation_leaves
from navrl.agents.networks.heads import head_for
from navrl.agents.networks.memory import GruRecurrence, NoRecurrence
from navrl.agents.networks.mlp import Critic, NetworkOptions, Policy, Trunk, trunks
from navrl.envs.core.specs import AGENT_ID

CRITICS = ("own", "central", "both")


class SeparateActors(nn.Module):
    """A trunk for every agent of the team; each decides in the rows of its own agent."""

    def __init__(self, actors: list[Trunk]) -> None:
        super().__init__()
        self.actors = nn.ModuleList(actors)

    @property
    def _first(self) -> Trunk:
        return cast("Trunk", self.actors[0])

    @property
    def memory(self) -> NoRecurrence | GruRecurrence:
        """How every actor remembers: all alike."""
        return self._first.memory

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all that is read of an observation, who sees it included."""
        return tuple(dict.fromkeys((*self._first.leaves, AGENT_ID)))

    def shared(self, frames: TensorDictBase) -> TensorDictBase:
        """The frames with what policy and critic compute alike: here nothing."""
        return frames

    def forward(self, frames: TensorDictBase) -> Tensor:
        """(..., outputs). All actors look at all rows: so shapes never depend on who is where."""
        return _of_each(frames, [actor(frames) for actor in self.actors])

    def step(self, frames: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Outputs, and what each actor remembers after the step."""
        actors = [cast("Trunk", actor) for actor in self.actors]
        outputs, hidden = zip(*(actor.step(frames) for actor in actors), strict=True)
        return _of_each(frames, outputs), _of_each(frames, hidden)

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Show the frames to the normalisers, which the actors share."""
        self._first.learn_scales(frames)


def _of_each(frames: TensorDictBase, said: Sequence[Tensor]) -> Tensor:
    """In every row what the actor of its agent says."""
    whose = frames.get(("observation", AGENT_ID)).argmax(-1, keepdim=True).unsqueeze(-1)
    return torch.stack([*said], -2).take_along_dim(whose, -2).squeeze(-2)


class TeamPolicy(Policy):
    """A Policy that knows which agent it acts for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # The env does not tell: it is the place in the group.
        self.in_keys = [key for key in self.in_keys if key[-1] != AGENT_ID]

    def seen(self, frames: TensorDictBase) -> TensorDictBase:
        """The group's frames (..., A), and who sees them."""
        return identified(frames)

    def informed(self, rollout: TensorDictBase) -> TensorDictBase:
        """The rollout with a leaf that says who sees it."""
        informed = rollout.copy()
        for frames in (informed, informed.get("next")):
            frames.set(GROUP, identified(frames.get(GROUP)))
        return informed


def identified(group: TensorDictBase) -> TensorDictBase:
    """A shallow copy of (..., A) frames of a team whose observations have one flag for each agent."""
    copy, num_agents = group.copy(), group.shape[-1]
    flags = torch.eye(num_agents, device=group.device).expand(*group.shape, num_agents)
    copy.set(("observation", AGENT_ID), flags)
    return copy


def team_networks(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    options: NetworkOptions,
    scale: ValueScale,
) -> tuple[Policy, Critic]:
    """As agent.network=separate, with what agent.team asks for."""
    team, group = options.team, group_of(observation_spec)
    _check(team, group)
    spec, head = observation_spec[GROUP], head_for(action_of(action_spec, group))
    num_agents, leaves = spec.shape[-1], observation_leaves(spec)
    if team.agent_id:
        leaves = leaves._replace(vectors={AGENT_ID: num_agents, **leaves.vectors})
    trunk = trunks("observation", leaves, options)
    trunk_of_policy: Any = trunk
    if not team.share_actor:

        def trunk_of_policy(**each: Any) -> SeparateActors:
            return SeparateActors([trunk(**each) for _ in range(num_agents)])

    kind = Policy if team.share_actor and not team.agent_id else TeamPolicy
    policy = kind(
        trunk=trunk_of_policy(outputs=head.outputs, output_gain=0.01, rnn=options.rnn),
        head=head,
        group=GROUP,
        masked="action_mask" in spec,
        compile_mode=options.compile_mode,
    )
    if team.critic != "own":
        return policy, central_critic(observation_spec, options, scale)
    return policy, Critic(trunk=trunk(outputs=1, output_gain=1.0), scale=scale)


def _check(team: TeamOptions, group: str | None) -> None:
    if team.critic not in CRITICS:
        raise ValueError(
            f"agent.team.critic = {team.critic!r}; expected one of {', '.join(CRITICS)}; "
            "change agent.team.critic"
        )
    if group is None:
        raise ValueError(
            "the env has one agent; expected a team, because agent.team is not that of agent=ppo; "
            "use agent=ppo or an env with several agents (docs/teams.md)"
        )
