"""The networks of agent.network by name."""

from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import INDEPENDENT
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.actor_critic import ActorCriticOptions, Critic, Policy
from navrl.agents.networks.navrl import navrl_networks
from navrl.agents.networks.separate import separate_networks
from navrl.agents.networks.team import team_networks
from navrl.config.checks import require_choice

_NETWORKS = {"separate": separate_networks, "navrl": navrl_networks}


def build_actor_critic(
    network: str,
    options: ActorCriticOptions,
    scale: ValueScale,
    observation_spec: Composite,
    action_spec: TensorSpec,
) -> tuple[Policy, Critic]:
    """Build policy and critic for the specs of an env."""
    require_choice("agent.network", network, _NETWORKS)
    build = _NETWORKS[network]
    if network != "separate" and options.rnn != "none":
        raise ValueError(
            f"agent.network = {network!r} with agent.rnn = {options.rnn!r}; expected none, since it has no "
            "memory; change agent.rnn or use agent.network=separate"
        )
    if options.team != INDEPENDENT:
        if network != "separate":
            raise ValueError(
                f"agent.network = {network!r} with agent.team.critic = {options.team.critic!r}, share_actor "
                f"= {options.team.share_actor} and agent_id = {options.team.agent_id}; expected own, True "
                "and False, the only values it supports; change them or use agent.network=separate"
            )
        build = team_networks
    return build(
        observation_spec=observation_spec, action_spec=action_spec, options=options, scale=scale
    )
