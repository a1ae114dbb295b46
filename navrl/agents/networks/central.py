"""A centralised critic: it sees what the whole team does, so that all agents of a team have one value."""

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Composite

from navrl.agents.core.team import CENTRAL, GROUP, state_of
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.encoders import Leaves, observation_leaves
from navrl.agents.networks.mlp import Critic, NetworkOptions, Trunk, trunks
from navrl.envs.core.specs import AGENT_ID

_TEAM = "team"


class CentralCritic(Critic):
    """The state of a team, or all that its agents see, and with `own_view` what each sees itself, to values.

    It is told whose value is asked for only where agents have rewards of their own. Else these inputs are
    zeros: the agents of a team share a reward, so without views of their own they have the same value.
    """

    trunk: Trunk

    def __init__(self, *, trunk: Trunk, scale: ValueScale, own_view: bool) -> None:
        super().__init__(trunk=trunk, scale=scale)
        self.own_view = own_view
        self.in_keys = [(CENTRAL, leaf) for leaf in trunk.leaves]

    def informed(self, rollout: TensorDictBase) -> TensorDictBase:
        """The rollout with what this critic is told about every agent's team, before and after a step."""
        informed = rollout.copy()
        own_reward = "reward" in informed.get(("next", GROUP))
        for frames in (informed, informed.get("next")):
            group, team = frames.get(GROUP), state_of(frames)
            num_agents = group.shape[-1]
            flags = torch.eye(num_agents, device=team.device) * float(own_reward)
            told = dict(group.get("observation").items()) if self.own_view else {}
            told |= {
                AGENT_ID: flags.expand(*group.shape, num_agents),
                _TEAM: team.unsqueeze(-2).expand(*group.shape, team.shape[-1]),
            }
            group.set(CENTRAL, TensorDict(told, group.shape))
        return informed

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Show the frames (B,) to normalisers that only this critic has."""
        self.trunk.learn_scales(frames)


def central_critic(
    observation_spec: Composite, options: NetworkOptions, scale: ValueScale
) -> CentralCritic:
    """A critic for the state of this env, or for its observations where it has no state."""
    group, width = observation_spec[GROUP], state_of(observation_spec.zero()).shape[-1]
    own_view = options.team.critic == "both"
    leaves = observation_leaves(group) if own_view else Leaves({}, {}, {})
    leaves = leaves._replace(vectors={AGENT_ID: group.shape[-1], _TEAM: width, **leaves.vectors})
    trunk = trunks(CENTRAL, leaves, options)(outputs=1, output_gain=1.0)
    return CentralCritic(trunk=trunk, scale=scale, own_view=own_view)
