"""A centralised critic: it sees what the whole team does, so that all agents of a team have one value."""

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from navrl.agents.encoders import Leaves, mask_of
from navrl.agents.networks import Critic, NetworkOptions, Trunk, trunks
from navrl.agents.team import ALIVE, CENTRAL, GROUP
from navrl.agents.values import ValueScale
from navrl.specs import AGENT_ID

_STATE = "state"  # where envs keep what a centralised critic is told
_TEAM = "team"


class CentralCritic(Critic):
    """The state of a team, or all that its agents see, to its value.

    It is told whose value is asked for only where agents have rewards of their own. Else these inputs are
    zeros: the agents of a team share a reward, so they have the same value.
    """

    trunk: Trunk

    def __init__(self, *, trunk: Trunk, scale: ValueScale) -> None:
        super().__init__(trunk=trunk, scale=scale)
        self.in_keys = [(CENTRAL, leaf) for leaf in trunk.leaves]

    def informed(self, rollout: TensorDictBase) -> TensorDictBase:
        """The rollout with what this critic is told about every agent's team, before and after a step."""
        informed = rollout.copy()
        own_reward = "reward" in informed.get(("next", GROUP))
        for frames in (informed, informed.get("next")):
            group = frames.get(GROUP)
            team = frames.get(_STATE, None)
            team = everything_seen(group) if team is None else team
            num_agents = group.shape[-1]
            flags = torch.eye(num_agents, device=team.device) * float(own_reward)
            told = {
                AGENT_ID: flags.expand(*group.shape, num_agents),
                _TEAM: team.unsqueeze(-2).expand(*group.shape, team.shape[-1]),
            }
            group.set(CENTRAL, TensorDict(told, group.shape))
        return informed

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Show the frames (B,) to normalisers that only this critic has."""
        self.trunk.learn_scales(frames)


def everything_seen(group: TensorDictBase) -> Tensor:
    """All observations of frames (..., A) in one row each, with zeros for the absent and the dead."""
    observation = group.get("observation")
    parts = []
    for name in sorted(observation.keys()):
        leaf, present = observation.get(name), observation.get(mask_of(name), None)
        if present is not None:
            leaf = torch.where(present.unsqueeze(-1), leaf, 0.0)
        parts.append(leaf.flatten(group.ndim).float())
    alive = group.get(ALIVE, None)
    if alive is not None:
        parts = [*(torch.where(alive, part, 0.0) for part in parts), alive.float()]
    return torch.cat(parts, -1).flatten(-2)


def central_critic(
    observation_spec: Composite, options: NetworkOptions, scale: ValueScale
) -> CentralCritic:
    """A critic for the state of this env, or for its observations where it has no state."""
    group = observation_spec[GROUP]
    if _STATE in observation_spec:
        width = observation_spec[_STATE].shape[-1]
    else:
        width = everything_seen(group.zero()).shape[-1]
    leaves = Leaves({AGENT_ID: group.shape[-1], _TEAM: width}, {}, {})
    trunk = trunks(CENTRAL, leaves, options)
    return CentralCritic(trunk=trunk(outputs=1, output_gain=1.0), scale=scale)
