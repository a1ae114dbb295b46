"""Policy and critic of PPO for the specs of an env, by agent.network.architecture and agent.team."""

from typing import Any

from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import INDEPENDENT, TeamOptions, action_of, frames_of, group_of
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.actor_critic import ActorCriticOptions, Critic, Policy
from navrl.agents.networks.encoders import Leaves, observation_leaves
from navrl.agents.networks.heads import Head, head_for
from navrl.agents.networks.navrl import navrl_trunks
from navrl.agents.networks.team import team_networks
from navrl.agents.networks.trunk import CRITIC_GAIN, POLICY_GAIN, trunk_builder
from navrl.config.checks import ConfigError, require_choice

ARCHITECTURES = ("separate", "navrl")


def build_actor_critic(
    *,
    options: ActorCriticOptions,
    team: TeamOptions,
    compile_mode: str | bool,
    scale: ValueScale,
    observation_spec: Composite,
    action_spec: TensorSpec,
) -> tuple[Policy, Critic]:
    """Build policy and critic for the specs of an env."""
    name = "agent.network.architecture"
    require_choice(name, options.architecture, ARCHITECTURES)
    if options.architecture != "separate" and options.rnn != "none":
        raise ConfigError(
            f"{name} = {options.architecture} with agent.network.rnn = {options.rnn}; expected none, "
            f"since it has no memory; change agent.network.rnn or use {name}=separate"
        )
    if options.architecture != "separate" and team != INDEPENDENT:
        raise ConfigError(
            f"{name} = {options.architecture} with agent.team.critic = {team.critic}, share_actor = "
            f"{team.share_actor} and agent_id = {team.agent_id}; expected own, True and False, the only "
            f"values it supports; change them or use {name}=separate"
        )
    if team != INDEPENDENT:
        return team_networks(
            observation_spec=observation_spec,
            action_spec=action_spec,
            options=options,
            team=team,
            compile_mode=compile_mode,
            scale=scale,
        )
    group = group_of(observation_spec)
    spec, head = frames_of(observation_spec, group), head_for(action_of(action_spec, group))
    build = separate_trunks if options.architecture == "separate" else navrl_trunks
    policy_trunk, critic_trunk, head = build(observation_leaves(spec), head, options)
    policy = Policy(
        trunk=policy_trunk,
        head=head,
        group=group,
        masked="action_mask" in spec,
        compile_mode=compile_mode,
    )
    return policy, Critic(trunk=critic_trunk, scale=scale)


def separate_trunks(
    leaves: Leaves, head: Head, options: ActorCriticOptions
) -> tuple[Any, Any, Head]:
    """Build the trunks of a policy and a critic that share only the observation's normalisers."""
    trunk = trunk_builder("observation", leaves, options)
    policy = trunk(outputs=head.outputs, output_gain=POLICY_GAIN, rnn=options.rnn)
    return policy, trunk(outputs=1, output_gain=CRITIC_GAIN), head
