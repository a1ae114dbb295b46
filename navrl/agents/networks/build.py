"""Policy and critic of PPO for the specs of an env, by agent.network.architecture and agent.team."""

from typing import Any

from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import INDEPENDENT, TeamOptions, action_of, frames_of, group_of
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.actor_critic import ActorCriticOptions, Critic, Policy
from navrl.agents.networks.encoders import observation_leaves
from navrl.agents.networks.heads import head_for
from navrl.agents.networks.navrl import navrl_networks
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
    common: dict[str, Any] = {
        "observation_spec": observation_spec,
        "action_spec": action_spec,
        "options": options,
        "compile_mode": compile_mode,
        "scale": scale,
    }
    if team != INDEPENDENT:
        return team_networks(team=team, **common)
    build = separate_networks if options.architecture == "separate" else navrl_networks
    return build(**common)


def separate_networks(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    options: ActorCriticOptions,
    compile_mode: str | bool,
    scale: ValueScale,
) -> tuple[Policy, Critic]:
    """Build a policy and a critic that share only the observation's normalisers."""
    group = group_of(observation_spec)
    spec, head = frames_of(observation_spec, group), head_for(action_of(action_spec, group))
    trunk = trunk_builder("observation", observation_leaves(spec), options)
    policy = Policy(
        trunk=trunk(outputs=head.outputs, output_gain=POLICY_GAIN, rnn=options.rnn),
        head=head,
        group=group,
        masked="action_mask" in spec,
        compile_mode=compile_mode,
    )
    return policy, Critic(trunk=trunk(outputs=1, output_gain=CRITIC_GAIN), scale=scale)
