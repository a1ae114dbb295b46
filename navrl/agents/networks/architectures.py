"""Which networks there are, by the name that agent.network has for them."""

from torchrl.data import Composite, TensorSpec

from navrl.agents.core.team import INDEPENDENT
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.mlp import Critic, NetworkOptions, Policy, separate_networks
from navrl.agents.networks.navrl import navrl_networks
from navrl.agents.networks.team import team_networks

_NETWORKS = {"separate": separate_networks, "navrl": navrl_networks}


def actor_critic(
    network: str,
    options: NetworkOptions,
    scale: ValueScale,
    observation_spec: Composite,
    action_spec: TensorSpec,
) -> tuple[Policy, Critic]:
    """Policy and critic for the specs of an env."""
    if network not in _NETWORKS:
        raise ValueError(
            f"agent.network = {network!r}; expected one of {', '.join(_NETWORKS)}; change agent.network"
        )
    build = _NETWORKS[network]
    if network != "separate" and options.rnn != "none":
        raise ValueError(
            f"agent.network = {network!r} with agent.rnn = {options.rnn!r}; expected none, since it "
            "remembers nothing; change agent.rnn or use agent.network=separate"
        )
    if options.team != INDEPENDENT:
        if network != "separate":
            raise ValueError(
                f"agent.network = {network!r} with agent.team.critic = {options.team.critic!r}, share_actor "
                f"= {options.team.share_actor} and agent_id = {options.team.agent_id}; expected own, True "
                "and False, which is all it can; change them or use agent.network=separate"
            )
        build = team_networks
    return build(
        observation_spec=observation_spec, action_spec=action_spec, options=options, scale=scale
    )
