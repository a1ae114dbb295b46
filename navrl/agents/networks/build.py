"""The networks of PPO, by the names that agent.network.architecture has for them."""

from typing import Any

from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import INDEPENDENT, TeamOptions
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.actor_critic import ActorCriticOptions, Critic, Policy
from navrl.agents.networks.navrl import navrl_networks
from navrl.agents.networks.separate import separate_networks
from navrl.agents.networks.team import team_networks
from navrl.config.checks import ConfigError, require_choice

_NETWORKS = {"separate": separate_networks, "navrl": navrl_networks}


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
    require_choice(name, options.architecture, _NETWORKS)
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
    return _NETWORKS[options.architecture](**common)
