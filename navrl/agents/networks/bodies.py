"""What agents of a team decide with: LayerNorm networks over what one of them is told, or over the state."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite

from navrl.agents.core.team import GROUP, state_of
from navrl.agents.networks.encoders import (
    EntityEncoder,
    Leaves,
    activation_of,
    check_sizes,
    linear,
    mask_of,
    observation_leaves,
)
from navrl.agents.networks.lidar import scan_encoder

_GAIN = 2.0**0.5


class BodyOptions(NamedTuple):
    """What YAML says of bodies."""

    hidden_sizes: Sequence[int]
    entity_sizes: Sequence[int]
    lidar_encoder: str
    activation: str


class TeamSpec(NamedTuple):
    """What there is to be seen in an env of a team."""

    num_agents: int
    state_size: int
    leaves: Leaves


def team_spec(observation_spec: Composite, agent: str) -> TeamSpec:
    """The sizes of an env's group and state; refuses an env that agent=`agent` cannot play."""
    if GROUP not in observation_spec:
        raise ValueError(
            f"the env has one agent; agent={agent} expected a team; choose env=alice_and_bob, "
            "env=coverage or env=combat env.team_size=4, or agent=ppo"
        )
    group, state = observation_spec[GROUP], state_of(observation_spec.zero())
    return TeamSpec(group.shape[-1], state.shape[-1], observation_leaves(group))


class View(nn.Module):
    """What one agent is told as one row: vectors as they come, sets and scans encoded."""

    def __init__(self, leaves: Leaves, options: BodyOptions) -> None:
        super().__init__()
        self.vectors, self.entities = tuple(leaves.vectors), tuple(leaves.entities)
        self.scans = tuple(leaves.scans)
        activation = options.activation
        encoders: dict[str, nn.Module] = {
            leaf: EntityEncoder(
                features=found.features, sizes=options.entity_sizes, activation=activation
            )
            for leaf, found in leaves.entities.items()
        }
        for leaf, scan in leaves.scans.items():
            encoders[leaf] = scan_encoder(options.lidar_encoder, scan, activation)
        self.encoders = nn.ModuleDict(encoders)
        widths = [int(each.outputs) for each in encoders.values()]  # type: ignore[arg-type]
        self.outputs = sum([*leaves.vectors.values(), *widths])

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all that is read of an observation."""
        masks = (mask_of(leaf) for leaf in self.entities)
        return (*self.vectors, *self.entities, *self.scans, *masks)

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Frames (...) to rows (..., outputs)."""
        rows = [frames.get(("observation", leaf)) for leaf in self.vectors]
        for leaf in self.entities:
            present = frames.get(("observation", mask_of(leaf)))
            rows.append(self.encoders[leaf](frames.get(("observation", leaf)), present))
        rows += [self.encoders[leaf](frames.get(("observation", leaf))) for leaf in self.scans]
        return torch.cat(rows, -1) if len(rows) > 1 else rows[0]


class Body(nn.Sequential):
    """Rows (..., inputs) to features (..., outputs), normalised on the way in and after every layer.

    LayerNorm needs no statistics of earlier rollouts, so a policy means the same in all of them.
    """

    def __init__(self, inputs: int, options: BodyOptions) -> None:
        check_sizes(options.hidden_sizes, "hidden_sizes")
        layers: list[nn.Module] = [nn.LayerNorm(inputs)]
        for before, width in itertools.pairwise([inputs, *options.hidden_sizes]):
            layers += [
                linear(before, width, _GAIN),
                activation_of(options.activation),
                nn.LayerNorm(width),
            ]
        super().__init__(*layers)
        self.outputs = options.hidden_sizes[-1]
