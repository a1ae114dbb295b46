"""Networks built from an env's specs: normalisers and encoders per observation leaf, an MLP, a head."""

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.distributions import ActionDistribution
from navrl.agents.encoders import (
    EntityEncoder,
    Leaves,
    Normaliser,
    dense,
    linear,
    mask_of,
    observation_leaves,
)
from navrl.agents.heads import Head, head_for
from navrl.agents.team import ALIVE, action_of, frames_of, group_of, in_group

PRECISIONS = ("fp32", "bf16", "auto")


class Trunk(nn.Module):
    """All leaves of an observation, normalised, sets of entities encoded, through an MLP to `outputs`."""

    def __init__(
        self,
        *,
        leaves: Leaves,
        normalisers: nn.ModuleDict,
        outputs: int,
        hidden_sizes: Sequence[int],
        entity_sizes: Sequence[int],
        activation: str,
        output_gain: float,
        precision: str,
    ) -> None:
        super().__init__()
        self.vectors, self.entities = tuple(leaves.vectors), tuple(leaves.entities)
        self.normalisers = normalisers
        self.bf16 = precision == "bf16"
        encoders = {
            leaf: EntityEncoder(features=features, sizes=entity_sizes, activation=activation)
            for leaf, features in leaves.entities.items()
        }
        self.encoders = nn.ModuleDict(encoders)
        inputs = sum([*leaves.vectors.values(), *(each.outputs for each in encoders.values())])
        self.layers = dense(inputs, hidden_sizes, activation, option="hidden_sizes")
        self.layers.append(linear(hidden_sizes[-1], outputs, output_gain))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all that is read of an observation."""
        return (*self.vectors, *self.entities, *(mask_of(leaf) for leaf in self.entities))

    def forward(self, tensordict: TensorDictBase) -> Tensor:
        """(..., outputs) in float32; with bf16 the matrix products, and so the outputs, are rounded."""
        vectors, sets = (
            [self.normalisers[leaf](tensordict.get(("observation", leaf))) for leaf in leaves]
            for leaves in (self.vectors, self.entities)
        )
        device = (vectors or sets)[0].device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.bf16):
            for leaf, entities in zip(self.entities, sets, strict=True):
                present = tensordict.get(("observation", mask_of(leaf)))
                vectors.append(self.encoders[leaf](entities, present))
            joined = torch.cat(vectors, -1) if len(vectors) > 1 else vectors[0]
            return self.layers(joined).float()

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Show the frames (B,) to the normalisers, but for dead agents and entities that are absent."""
        alive = frames.get(ALIVE, True)
        normaliser: Any
        for leaf, normaliser in self.normalisers.items():
            rows, counted = frames.get(("observation", leaf)), alive
            if leaf in self.entities:
                counted = (frames.get(("observation", mask_of(leaf))) & alive).reshape(-1, 1)
                rows = rows.flatten(0, 1)
            normaliser.update(rows, counted)


class Policy(TensorDictModuleBase):
    """Observation and mask to action and its log-probability; `version` counts updates.

    It acts for every agent of the group `group`, or for the env's only one where that is None.
    """

    def __init__(self, *, trunk: Trunk, head: Head, group: str | None, masked: bool) -> None:
        super().__init__()
        self.trunk, self.head, self.group, self.version = trunk, head, group, 0
        mask = ["action_mask"] if masked else []
        self.in_keys = in_group(group, *(("observation", leaf) for leaf in trunk.leaves), *mask)
        self.out_keys = in_group(group, "action", "action_log_prob")
        # What TorchRL's losses ask a policy for; they see the frames of one agent.
        self.dist_sample_keys, self.log_prob_keys = ["action"], ["action_log_prob"]

    def get_dist(self, frames: TensorDictBase) -> ActionDistribution:
        """The action distribution of every row of one agent's frames."""
        return self.head.distribution(self.trunk(frames), frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take the deterministic action under ExplorationType.DETERMINISTIC."""
        frames = frames_of(tensordict, self.group)
        dist = self.get_dist(frames)
        mode = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        action = dist.deterministic_sample if mode else dist.sample()
        frames.set("action", action)
        frames.set("action_log_prob", dist.log_prob(action))
        return tensordict


class Critic(TensorDictModuleBase):
    """Observation of one agent to state value."""

    def __init__(self, *, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk
        self.in_keys = [("observation", leaf) for leaf in trunk.leaves]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds state_value (..., 1)."""
        tensordict.set("state_value", self.trunk(tensordict))
        return tensordict


def actor_critic(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    hidden_sizes: Sequence[int],
    entity_sizes: Sequence[int],
    activation: str,
    precision: str,
) -> tuple[Policy, Critic]:
    """Separate networks that share only the observation's normalisers."""
    group = group_of(observation_spec)
    spec, head = frames_of(observation_spec, group), head_for(action_of(action_spec, group))
    leaves = observation_leaves(spec)
    sizes = {**leaves.vectors, **leaves.entities}
    normalisers = nn.ModuleDict({leaf: Normaliser(n) for leaf, n in sizes.items()})

    def trunk(outputs: int, gain: float) -> Trunk:
        return Trunk(
            leaves=leaves,
            normalisers=normalisers,
            outputs=outputs,
            hidden_sizes=hidden_sizes,
            entity_sizes=entity_sizes,
            activation=activation,
            output_gain=gain,
            precision=precision,
        )

    # A small last layer: the first policy is close to uniform over choices, and centred on intervals.
    policy = Policy(
        trunk=trunk(head.outputs, 0.01), head=head, group=group, masked="action_mask" in spec
    )
    return policy, Critic(trunk=trunk(1, 1.0))


def resolve_precision(precision: str, device: torch.device) -> str:
    """fp32 or bf16; `auto` takes bf16 where the hardware multiplies it natively."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"agent.precision = {precision!r}; expected one of {', '.join(PRECISIONS)}; "
            "change agent.precision"
        )
    if precision != "auto":
        return precision
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return "bf16" if native else "fp32"
