"""All that learns, in three modules: the policy, the critic, and the discriminators."""

from typing import NamedTuple

import torch
from torch import nn
from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import ALIVE, GROUP, STATE, action_of, in_group
from navrl.agents.core.value_scale import ValueScale, value_scale
from navrl.agents.hmasd.ablations import Setting
from navrl.agents.hmasd.coordinator import Coordinator, UniformSkills
from navrl.agents.hmasd.discoverer import CRITICS, Actor, AgentCritic, TeamCritic
from navrl.agents.hmasd.discriminators import AgentDiscriminator, TeamDiscriminator
from navrl.agents.hmasd.options import ActorOptions, CoordinatorOptions
from navrl.agents.hmasd.policy import HierarchicalPolicy
from navrl.agents.networks.heads import head_for
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.team import TeamSpec, team_spec

FOREVER = 2**31  # steps
_ALSO_TOLD = (STATE, *in_group(GROUP, "action_mask", ALIVE))  # where an env has one


class Critic(nn.Module):
    """The low level's critic, and the units in which it and the coordinator speak of values."""

    def __init__(self, network: TeamCritic | AgentCritic, kind: str) -> None:
        super().__init__()
        self.network = network
        self.scale: ValueScale = value_scale(kind)
        self.high_scale: ValueScale = value_scale(kind)


class Discriminators(nn.Module):
    """Of the team's skill, and of an agent's."""

    def __init__(self, team: TeamDiscriminator, agent: AgentDiscriminator) -> None:
        super().__init__()
        self.team, self.agent = team, agent


class Networks(NamedTuple):
    """The three."""

    policy: HierarchicalPolicy
    critic: Critic
    discriminators: Discriminators

    def to(self, device: torch.device) -> "Networks":
        """The same on a device."""
        policy, critic, discriminators = self
        return Networks(policy.to(device), critic.to(device), discriminators.to(device))


def networks(
    setting: Setting,
    *,
    k: int,
    value_normalisation: str,
    network: NetworkOptions,
    coordinator: CoordinatorOptions,
    actor: ActorOptions,
    observation_spec: Composite,
    action_spec: TensorSpec,
) -> Networks:
    """The networks of a setting for the specs of an env."""
    team = team_spec(observation_spec, "hmasd")
    skills, team_skills = setting.individual_skills, setting.team_skills
    chooser: Coordinator | UniformSkills = UniformSkills(setting.choices)
    if setting.coordinated:
        width, blocks, heads = coordinator.width, coordinator.blocks, coordinator.heads
        chooser = Coordinator(
            choices=setting.choices,
            team=team,
            network=network,
            width=width,
            blocks=blocks,
            heads=heads,
        )
    head = head_for(action_of(action_spec, GROUP))
    policy = HierarchicalPolicy(
        coordinator=chooser,
        actor=Actor(team=team, network=network, head=head, skills=skills, options=actor),
        interval=k if setting.coordinated else FOREVER,
        num_agents=team.num_agents,
        also_told=[key for key in _ALSO_TOLD if key in observation_spec.keys(include_nested=True)],
    )
    critic = _critic(team, network, actor, team_skills=team_skills, skills=skills)
    discriminators = Discriminators(
        TeamDiscriminator(team=team, network=network, skills=team_skills),
        AgentDiscriminator(team=team, network=network, team_skills=team_skills, skills=skills),
    )
    return Networks(policy, Critic(critic, value_normalisation), discriminators)


def _critic(
    team: TeamSpec, network: NetworkOptions, actor: ActorOptions, *, team_skills: int, skills: int
) -> TeamCritic | AgentCritic:
    """What agent.actor.critic names."""
    if actor.critic not in CRITICS:
        raise ValueError(
            f"agent.actor.critic = {actor.critic!r}; expected one of {', '.join(CRITICS)}; "
            "change agent.actor.critic"
        )
    if actor.critic == "both":
        return AgentCritic(team=team, network=network, team_skills=team_skills, skills=skills)
    return TeamCritic(
        team=team, network=network, skills=team_skills, injection=actor.skill_injection
    )
