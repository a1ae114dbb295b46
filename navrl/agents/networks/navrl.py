"""agent.network.architecture=navrl: the network of the published NavRL, layer by layer.

A convolution over the lidar scan and an MLP over all moving obstacles at once meet the state in two shared
layers, on which a policy and a value are one layer each. Inputs are not normalised, every layer is.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.fast.products import Linear
from navrl.agents.networks.actor_critic import ActorCriticOptions
from navrl.agents.networks.encoders import Leaves
from navrl.agents.networks.heads import BetaHead, Head
from navrl.agents.networks.layers import NetworkOptions, activation_of, check_sizes, linear
from navrl.agents.networks.lidar import scan_encoder
from navrl.agents.networks.memory import NoRecurrence
from navrl.envs.core.specs import mask_of

_FEATURES = "features"
_GAIN = 0.01  # of the last layers of policy and critic


class Features(nn.Module):
    """The layers that policy and critic share, over one scan, one set of entities and one vector."""

    def __init__(self, *, leaves: Leaves, options: NetworkOptions, bf16: bool) -> None:
        super().__init__()
        ((self.vector, width),) = leaves.vectors.items()
        ((self.set, entities),) = leaves.entities.items()
        ((self.scanned, scan),) = leaves.scans.items()
        self.bf16 = bf16
        metres = scan._replace(largest=1.0)  # not scaled, as published
        self.scan = scan_encoder(options.lidar_encoder, metres, options.activation)
        check_sizes(options.entity_sizes, "entity_sizes")
        check_sizes(options.hidden_sizes, "hidden_sizes")
        numbers = entities.number * entities.features
        self.entities = _normed(numbers, options.entity_sizes, options.activation)
        inputs = self.scan.outputs + options.entity_sizes[-1] + width
        self.layers = _normed(inputs, options.hidden_sizes, options.activation)

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Return features (...); the order of the parts is that of the published weights."""
        names = (self.scanned, self.set, mask_of(self.set), self.vector)
        scan, entities, present, vector = (frames.get(("observation", name)) for name in names)
        with torch.autocast(scan.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            rows = torch.where(present.unsqueeze(-1), entities, 0.0).flatten(-2)
            joined = torch.cat([self.scan(scan).float(), self.entities(rows).float(), vector], -1)
            return self.layers(joined).float()


class Branch(nn.Module):
    """The shared features, then one layer."""

    memory = NoRecurrence()

    def __init__(self, *, features: Features, outputs: int, inputs: int) -> None:
        super().__init__()
        self.features, self.last = features, linear(inputs, outputs, _GAIN)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all observation leaves that are read."""
        features = self.features
        return (features.vector, features.set, features.scanned, mask_of(features.set))

    def with_shared_features(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the frames with the features, so that they are computed once for policy and critic."""
        return frames.copy().set(_FEATURES, self.features(frames))

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Return outputs (...) in float32."""
        features = frames.get(_FEATURES, None)
        return self.last(self.features(frames) if features is None else features)

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Do nothing: inputs are not normalised."""


class NavrlHead(BetaHead):
    """A BetaHead whose alpha and beta are slightly larger, as published."""

    least = 1.0 + 1e-6


def navrl_trunks(
    leaves: Leaves, head: Head, options: ActorCriticOptions
) -> tuple[Branch, Branch, Head]:
    """Build the branches of policy and critic on shared features, and the head of the policy."""
    if [len(kind) for kind in leaves] != [1, 1, 1] or not isinstance(head, BetaHead):
        names = ", ".join(repr(name) for kind in leaves for name in kind)
        raise ValueError(
            f"agent.network.architecture = navrl, and the env observes {names} and takes "
            f"{type(head).__name__} actions; expected one vector, one set of entities, one lidar scan "
            "and bounded actions, as in env=navigation; use agent.network.architecture=separate"
        )
    features = Features(leaves=leaves, options=options, bf16=options.precision == "bf16")
    policy, critic = (
        Branch(features=features, outputs=outputs, inputs=options.hidden_sizes[-1])
        for outputs in (head.outputs, 1)
    )
    return policy, critic, NavrlHead(low=head.low, high=head.high)


def _normed(inputs: int, sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Return linear layers with torch's own initial weights, each with an activation and a LayerNorm."""
    layers: list[Any] = []
    for before, width in itertools.pairwise([inputs, *sizes]):
        layers += [Linear(before, width), activation_of(activation), nn.LayerNorm(width)]
    return nn.Sequential(*layers)
