"""Networks built from an env's specs: normalisers and encoders per observation leaf, an MLP, a head."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor, nn
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.core.team import ALIVE, TeamOptions, action_of, frames_of, group_of, in_group
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.encoders import (
    EntityEncoder,
    Leaves,
    Normaliser,
    dense,
    linear,
    mask_of,
    observation_leaves,
)
from navrl.agents.networks.heads import Head, head_for
from navrl.agents.networks.lidar import scan_encoder
from navrl.agents.networks.memory import FRESH, HIDDEN, recurrence
from navrl.envs.core.compiling import CompiledSample

PRECISIONS = ("fp32", "bf16", "auto")


class NetworkOptions(NamedTuple):
    """What YAML says of networks."""

    hidden_sizes: Sequence[int]
    entity_sizes: Sequence[int]
    lidar_encoder: str
    activation: str
    precision: str  # fp32 | bf16
    rnn: str
    chunk_length: int
    team: TeamOptions
    compile_mode: str | bool


class Trunk(nn.Module):
    """All leaves of `source`, normalised, sets and scans encoded, through an MLP to `outputs`.

    With a memory (`rnn`) that is between the MLP and its last layer.
    """

    def __init__(
        self,
        *,
        source: str,
        leaves: Leaves,
        normalisers: nn.ModuleDict,
        outputs: int,
        output_gain: float,
        options: NetworkOptions,
        rnn: str = "none",
    ) -> None:
        super().__init__()
        self.vectors, self.entities, self.scans = (tuple(names) for names in leaves)
        self.source, self.normalisers = source, normalisers
        self.bf16 = options.precision == "bf16"
        activation, sizes = options.activation, options.entity_sizes
        encoders: dict[str, Any] = {
            leaf: EntityEncoder(features=found.features, sizes=sizes, activation=activation)
            for leaf, found in leaves.entities.items()
        }
        for leaf, scan in leaves.scans.items():
            encoders[leaf] = scan_encoder(options.lidar_encoder, scan, activation)
        self.encoders = nn.ModuleDict(encoders)
        inputs = sum([*leaves.vectors.values(), *(each.outputs for each in encoders.values())])
        self.layers = dense(inputs, options.hidden_sizes, activation, option="hidden_sizes")
        width = options.hidden_sizes[-1]
        self.memory = recurrence(rnn, width, options.chunk_length, options="agent")
        self.layers.append(linear(width, outputs, output_gain))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all that is read of an observation."""
        masks = (mask_of(leaf) for leaf in self.entities)
        return (*self.vectors, *self.entities, *self.scans, *masks)

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the outputs."""
        *_, layer = self.layers
        return cast("nn.Linear", layer)

    def shared(self, frames: TensorDictBase) -> TensorDictBase:
        """The frames with what policy and critic compute alike: here nothing."""
        return frames

    def forward(self, tensordict: TensorDictBase) -> Tensor:
        """(..., outputs) in float32; with bf16 the matrix products, and so the outputs, are rounded.

        Frames that say where episodes begin are chunks of steps; others are steps on their own.
        """
        if not self.memory.size:
            return self._through(self.layers, tensordict)
        if FRESH not in tensordict:
            return self.step(tensordict)[0]
        rows = self._through(self.layers[:-1], tensordict)
        hidden = tensordict.get(HIDDEN)[:, 0]
        return self.last(self.memory(rows, hidden, tensordict.get(FRESH)))

    def step(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Outputs of steps on their own, and what is remembered after them."""
        rows = self._through(self.layers[:-1], tensordict)
        rows, hidden = self.memory.step(rows, tensordict.get(HIDDEN))
        return self.last(rows), hidden

    def _through(self, layers: nn.Module, tensordict: TensorDictBase) -> Tensor:
        vectors, sets = (
            [self.normalisers[leaf](tensordict.get((self.source, leaf))) for leaf in leaves]
            for leaves in (self.vectors, self.entities)
        )
        device = self.last.weight.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.bf16):
            for leaf, entities in zip(self.entities, sets, strict=True):
                present = tensordict.get((self.source, mask_of(leaf)))
                vectors.append(self.encoders[leaf](entities, present))
            for leaf in self.scans:
                scan = tensordict.get((self.source, leaf))
                vectors.append(self.encoders[leaf](scan).float())
            joined = torch.cat(vectors, -1) if len(vectors) > 1 else vectors[0]
            return layers(joined).float()

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Show the frames (B,) to the normalisers, but for dead agents and entities that are absent."""
        alive = frames.get(ALIVE, True)
        normaliser: Any
        for leaf, normaliser in self.normalisers.items():
            rows, counted = frames.get((self.source, leaf)), alive
            if leaf in self.entities:
                counted = (frames.get((self.source, mask_of(leaf))) & alive).reshape(-1, 1)
                rows = rows.flatten(0, 1)
            normaliser.update(rows, counted)


class Policy(TensorDictModuleBase):
    """Observation and mask to action and its log-probability; `version` counts updates.

    Its trunk is a Trunk, or another module with what a Trunk has. It acts for every agent of the group
    `group`, or for the env's only one where that is None.
    """

    def __init__(
        self,
        *,
        trunk: Any,
        head: Head,
        group: str | None,
        masked: bool,
        compile_mode: str | bool,
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.group, self.version = trunk, head, group, 0
        mask = ["action_mask"] if masked else []
        told = [*(("observation", leaf) for leaf in trunk.leaves), *mask]
        hidden = [HIDDEN] if trunk.memory.size else []
        self._read, self._hidden = [*told, *hidden], in_group(group, *hidden)
        self._sample = CompiledSample(self._sample_eager, compile_mode)
        self.in_keys = in_group(group, *told)
        self.out_keys = in_group(group, "action", "action_log_prob", *hidden)
        self.out_keys += [("next", *_as_tuple(key)) for key in self._hidden]
        # What TorchRL's losses ask a policy for; they see the frames of one agent.
        self.dist_sample_keys, self.log_prob_keys = ["action"], ["action_log_prob"]

    def seen(self, frames: TensorDictBase) -> TensorDictBase:
        """The frames with what this policy has to know besides what the env says: here nothing."""
        return frames

    def informed(self, rollout: TensorDictBase) -> TensorDictBase:
        """The rollout with what this policy has to know besides what the env says: here nothing."""
        return rollout

    def get_dist(self, frames: TensorDictBase) -> ActionDistribution:
        """The action distribution of every row of one agent's frames."""
        return self.head.distribution(self.trunk(frames), frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take the deterministic action under ExplorationType.DETERMINISTIC.

        What is remembered is written under "next", from where an env hands it on, as zeros when an episode
        begins; so many envs, other envs and resumed runs share one policy.
        """
        frames = frames_of(tensordict, self.group)
        if self._hidden and HIDDEN not in frames:
            frames.set(
                HIDDEN, torch.zeros(*frames.shape, self.trunk.memory.size, device=frames.device)
            )
        seen = self.seen(frames)
        columns = [seen.get(key) for key in self._read]
        if exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE):
            action, log_prob, *after = self._decide(columns, best=True)
        else:  # what a collector does at every step, so all of it is one graph
            action, log_prob, *after = self._sample(*columns)
        frames.set("action", action)
        frames.set("action_log_prob", log_prob)
        for key, hidden in zip(self._hidden, after, strict=True):
            tensordict.set(("next", *_as_tuple(key)), hidden)
        return tensordict

    def _sample_eager(self, *columns: Tensor) -> tuple[Tensor, ...]:
        return self._decide(columns, best=False)

    def _decide(self, columns: Sequence[Tensor], *, best: bool) -> tuple[Tensor, ...]:
        """For what is read of every row an action, its log-probability, and what is remembered."""
        frames = TensorDict(dict(zip(self._read, columns, strict=True)))
        if self._hidden:
            outputs, *after = self.trunk.step(frames)
            dist = self.head.distribution(outputs, frames)
        else:
            dist, after = self.get_dist(frames), []
        action = dist.deterministic_sample if best else dist.sample()
        return action, dist.log_prob(action), *after


def _as_tuple(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


class Critic(TensorDictModuleBase):
    """Observation of one agent to its state value, in the units of `scale`."""

    def __init__(self, *, trunk: Any, scale: ValueScale) -> None:
        super().__init__()
        self.trunk, self.scale = trunk, scale
        self.in_keys = [("observation", leaf) for leaf in trunk.leaves]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds state_value (..., 1)."""
        tensordict.set("state_value", self.trunk(tensordict))
        return tensordict

    def informed(self, rollout: TensorDictBase) -> TensorDictBase:
        """The rollout with what this critic has to know besides observations: here nothing."""
        return rollout

    def learn_scales(self, frames: TensorDictBase) -> None:
        """Do nothing: what is normalised here the policy normalises too, and its scales are shared."""


def separate_networks(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    options: NetworkOptions,
    scale: ValueScale,
) -> tuple[Policy, Critic]:
    """agent.network=separate: networks that share only the observation's normalisers."""
    group = group_of(observation_spec)
    spec, head = frames_of(observation_spec, group), head_for(action_of(action_spec, group))
    trunk = trunks("observation", observation_leaves(spec), options)
    # A small last layer: the first policy is close to uniform over choices, and centred on intervals.
    policy = Policy(
        trunk=trunk(outputs=head.outputs, output_gain=0.01, rnn=options.rnn),
        head=head,
        group=group,
        masked="action_mask" in spec,
        compile_mode=options.compile_mode,
    )
    return policy, Critic(trunk=trunk(outputs=1, output_gain=1.0), scale=scale)


def trunks(source: str, leaves: Leaves, options: NetworkOptions) -> Callable[..., Trunk]:
    """Makes trunks of (outputs, output_gain) that read these leaves and share their normalisers."""
    sizes = leaves.vectors | {leaf: found.features for leaf, found in leaves.entities.items()}
    return partial(
        Trunk,
        source=source,
        leaves=leaves,
        normalisers=nn.ModuleDict({leaf: Normaliser(n) for leaf, n in sizes.items()}),
        options=options,
    )


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
