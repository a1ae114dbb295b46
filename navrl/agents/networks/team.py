"""Networks for teams (agent.team): agent ids as inputs, one actor for each agent, a centralised critic."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import CENTRAL, GROUP, TeamOptions, action_of, group_of, state_of
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.actor_critic import ActorCriticOptions, Critic, Policy
from navrl.agents.networks.encoders import Leaves, observation_leaves
from navrl.agents.networks.heads import head_for
from navrl.agents.networks.memory import GruRecurrence, NoRecurrence
from navrl.agents.networks.trunk import CRITIC_GAIN, POLICY_GAIN, Trunk, trunk_builder
from navrl.config.checks import require_choice
from navrl.envs.core.specs import AGENT_ID

CRITICS = ("own", "central", "both")
_STATE = "team"  # the leaf of a central critic that holds the state


class TeamSpec(NamedTuple):
    """The sizes of a team and its observations."""

    num_agents: int
    state_size: int
    leaves: Leaves


def team_spec(observation_spec: Composite, agent: str) -> TeamSpec:
    """Return the sizes of an env's team; raise ValueError about an env with one agent."""
    if GROUP not in observation_spec:
        raise ValueError(
            f"the env has one agent; agent={agent} expected a team; choose env=alice_and_bob, "
            "env=coverage or env=combat env.team_size=4, or agent=ppo"
        )
    group, state = observation_spec[GROUP], state_of(observation_spec.zero())
    return TeamSpec(group.shape[-1], state.shape[-1], observation_leaves(group))


class SeparateActors(nn.Module):
    """A trunk for every agent of the team; the rows of an agent come from its own trunk."""

    def __init__(self, actors: list[Trunk]) -> None:
        super().__init__()
        self.actors = nn.ModuleList(actors)

    @property
    def _first(self) -> Trunk:
        return cast("Trunk", self.actors[0])

    @property
    def memory(self) -> NoRecurrence | GruRecurrence:
        """The memory of the first actor; all are alike."""
        return self._first.memory

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all observation leaves that are read, and the agent's id."""
        return tuple(dict.fromkeys((*self._first.leaves, AGENT_ID)))

    def with_shared_features(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the frames as they are: policy and critic share no layer."""
        return frames

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Return outputs (...). All actors compute all rows, so that shapes do not depend on the agents."""
        return _own_rows(frames, [actor(frames) for actor in self.actors])

    def step(self, frames: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Return the outputs of single steps, and the hidden state after them."""
        actors = [cast("Trunk", actor) for actor in self.actors]
        outputs, hidden = zip(*(actor.step(frames) for actor in actors), strict=True)
        return _own_rows(frames, outputs), _own_rows(frames, hidden)

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Merge the frames into the normalisers, which the actors share."""
        self._first.update_normalisers(frames)


def _own_rows(frames: TensorDictBase, outputs: Sequence[Tensor]) -> Tensor:
    """Select in every row the output of its own agent's actor."""
    agent = frames.get(("observation", AGENT_ID)).argmax(-1, keepdim=True).unsqueeze(-1)
    rows = torch.stack([*outputs], -2)
    return rows.gather(-2, agent.expand(*rows.shape[:-2], 1, rows.shape[-1])).squeeze(-2)


class TeamPolicy(Policy):
    """A Policy that reads which agent it acts for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Not a leaf of the env: it is the place in the group.
        self.in_keys = [key for key in self.in_keys if key[-1] != AGENT_ID]

    def with_agent_ids(self, frames: TensorDictBase) -> TensorDictBase:
        """Return a shallow copy of the group's frames (..., A) with the agent's id in the observation."""
        return with_agent_ids(frames)

    def with_inputs(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout with the agent's id in every observation."""
        extended = rollout.copy()
        for frames in (extended, extended.get("next")):
            frames.set(GROUP, with_agent_ids(frames.get(GROUP)))
        return extended


def with_agent_ids(group: TensorDictBase) -> TensorDictBase:
    """Return a shallow copy of a team's frames (..., A) with one flag for each agent in the observation."""
    copy, num_agents = group.copy(), group.shape[-1]
    flags = torch.eye(num_agents, device=group.device).expand(*group.shape, num_agents)
    copy.set(("observation", AGENT_ID), flags)
    return copy


class CentralCritic(Critic):
    """A value of the team's state or all its observations, with `own_view` also of the agent's observation.

    It reads the agent's id only where agents have rewards of their own. Elsewhere the id is zeros: the
    agents of a team share a reward, so without views of their own they have the same value.
    """

    trunk: Trunk

    def __init__(self, *, trunk: Trunk, scale: ValueScale, own_view: bool) -> None:
        super().__init__(trunk=trunk, scale=scale)
        self.own_view = own_view
        self.in_keys = [(CENTRAL, leaf) for leaf in trunk.leaves]

    def with_inputs(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout with the inputs of this critic for every agent, before and after each step."""
        extended = rollout.copy()
        own_reward = "reward" in extended.get(("next", GROUP))
        for frames in (extended, extended.get("next")):
            group, state = frames.get(GROUP), state_of(frames)
            num_agents = group.shape[-1]
            flags = torch.eye(num_agents, device=state.device) * float(own_reward)
            inputs = dict(group.get("observation").items()) if self.own_view else {}
            inputs |= {
                AGENT_ID: flags.expand(*group.shape, num_agents),
                _STATE: state.unsqueeze(-2).expand(*group.shape, state.shape[-1]),
            }
            group.set(CENTRAL, TensorDict(inputs, group.shape))
        return extended

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Merge the frames (B,) into the normalisers that only this critic has."""
        self.trunk.update_normalisers(frames)


def central_critic(
    observation_spec: Composite, options: ActorCriticOptions, scale: ValueScale, *, own_view: bool
) -> CentralCritic:
    """Build a critic of the env's state, or of all observations where the env has no state."""
    group, width = observation_spec[GROUP], state_of(observation_spec.zero()).shape[-1]
    leaves = observation_leaves(group) if own_view else Leaves({}, {}, {})
    leaves = leaves._replace(vectors={AGENT_ID: group.shape[-1], _STATE: width, **leaves.vectors})
    trunk = trunk_builder(CENTRAL, leaves, options)(outputs=1, output_gain=CRITIC_GAIN)
    return CentralCritic(trunk=trunk, scale=scale, own_view=own_view)


def team_networks(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    options: ActorCriticOptions,
    team: TeamOptions,
    compile_mode: str | bool,
    scale: ValueScale,
) -> tuple[Policy, Critic]:
    """Build separate networks with the options of agent.team."""
    group = group_of(observation_spec)
    require_choice("agent.team.critic", team.critic, CRITICS)
    if group is None:
        raise ValueError(
            "the env has one agent; expected a team, because agent.team is not that of agent=ppo; "
            "use agent=ppo or an env with several agents (docs/teams.md)"
        )
    spec, head = observation_spec[GROUP], head_for(action_of(action_spec, group))
    num_agents, leaves = spec.shape[-1], observation_leaves(spec)
    if team.agent_id:
        leaves = leaves._replace(vectors={AGENT_ID: num_agents, **leaves.vectors})
    trunk = trunk_builder("observation", leaves, options)
    actor: dict[str, Any] = {
        "outputs": head.outputs,
        "output_gain": POLICY_GAIN,
        "rnn": options.rnn,
    }
    actors = [trunk(**actor) for _ in range(1 if team.share_actor else num_agents)]
    kind = Policy if team.share_actor and not team.agent_id else TeamPolicy
    policy = kind(
        trunk=actors[0] if team.share_actor else SeparateActors(actors),
        head=head,
        group=GROUP,
        masked="action_mask" in spec,
        compile_mode=compile_mode,
    )
    if team.critic != "own":
        return policy, central_critic(
            observation_spec, options, scale, own_view=team.critic == "both"
        )
    return policy, Critic(trunk=trunk(outputs=1, output_gain=CRITIC_GAIN), scale=scale)
