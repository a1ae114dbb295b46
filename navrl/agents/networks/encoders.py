"""What stands between an observation and the layers that decide: a normaliser, and an encoder of sets."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchrl.data import Bounded, Composite, TensorSpec

from navrl.agents.fast.products import Linear

_ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
}
_CLIP = 10.0
_SET_DIMS = 2  # entities, features
_ABSENT = -1e30  # less than what is told of anybody who is there
_SCAN_DIMS = 3  # 1, beams, rings


class Normaliser(nn.Module):
    """Running mean and variance of observation rows; part of the policy, so it travels with it."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of about unit scale, clipped."""
        return ((rows - self.mean) * torch.rsqrt(self.variance + 1e-4)).clamp(-_CLIP, _CLIP)

    @torch.no_grad()
    def update(self, rows: Tensor, counted: Tensor | bool = True) -> None:
        """Merge a batch (B, F); rows that are not finite, or not `counted` (B, 1), do not count."""
        # A row whose sum is finite is, and one of numbers that only overflow together tells nothing either.
        # The rest works in one buffer: new memory costs more than sums.
        finite = rows.sum(-1, keepdim=True, dtype=torch.float32).isfinite() & counted
        rows = torch.where(finite, rows, 0.0)
        size = finite.sum().to(torch.float64)
        mean = rows.sum(0) / size.clamp_min(1.0)
        variance = rows.sub_(mean).mul_(finite).square_().sum(0) / size.clamp_min(1.0)
        total = (self.count + size).clamp_min(1.0)
        share = size / total
        shift = mean - self.mean
        merged = (1.0 - share) * self.variance + share * variance + share * (1.0 - share) * shift**2
        merged = torch.where(self.count > 0, merged, variance)
        self.variance.copy_(torch.where(size > 0, merged, self.variance))
        self.mean.add_(shift * share)
        self.count.add_(size)


class EntityEncoder(nn.Module):
    """A set of entities in any order and number to one row: the mean and the maximum of what each says."""

    def __init__(self, *, features: int, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = dense(features, sizes, activation, option="entity_sizes")
        self.outputs = 2 * sizes[-1]

    def forward(self, entities: Tensor, present: Tensor) -> Tensor:
        """(..., E, F) and bool (..., E) to (..., outputs); zeros where nobody is present."""
        present = present.unsqueeze(-1)
        # Not only the results of the absent: a NaN in there would come back as a gradient.
        told = self.layers(torch.where(present, entities, 0.0)).float()
        # What is told of the absent is finite, so sums and products do: faster than to choose with where.
        counted = present.to(told.dtype)
        mean = (told * counted).sum(-2) / counted.sum(-2).clamp_min(1.0)
        # Not amax: its gradient, shared out among equals, takes as long as the rest of a gradient step.
        highest = (told + (1.0 - counted) * _ABSENT).max(-2).values
        return torch.cat([mean, torch.where(present.any(-2), highest, 0.0)], -1)


class Entities(NamedTuple):
    """The leaf of a set: how many entities at most, and how many numbers each."""

    number: int
    features: int


class Scan(NamedTuple):
    """The leaf of a lidar: beams around, rings from low to high."""

    beams: int
    rings: int
    largest: float  # the upper bound in the spec, 1 where it has none: divided by it a scan has unit scale


class Leaves(NamedTuple):
    """What is known of every observation leaf by name, in alphabetical order."""

    vectors: dict[str, int]  # features
    entities: dict[str, Entities]  # sets; the leaf called mask_of(name) says who is present
    scans: dict[str, Scan]


def observation_leaves(observation_spec: Composite) -> Leaves:
    """Vectors (F,), entities (E, F) with a bool leaf (E,) beside them, and scans (1, beams, rings)."""
    spec = observation_spec["observation"]
    shapes = {name: spec[name].shape[len(spec.shape) :] for name in sorted(spec.keys())}
    masks = {
        name for name in shapes if name.endswith(mask_of("")) and spec[name].dtype == torch.bool
    }
    leaves = Leaves({}, {}, {})
    for name, shape in shapes.items():
        if name in masks:
            continue
        if len(shape) == 1:
            leaves.vectors[name] = shape[0]
        elif (
            len(shape) == _SET_DIMS
            and mask_of(name) in masks
            and shapes[mask_of(name)] == shape[:1]
        ):
            leaves.entities[name] = Entities(*shape)
        elif len(shape) == _SCAN_DIMS and shape[0] == 1:
            leaves.scans[name] = Scan(shape[1], shape[2], _upper_bound(spec[name]))
        else:
            raise ValueError(
                f"observation leaf {name!r} has shape {tuple(shape)}; expected a vector, or entities with a "
                f"bool leaf {mask_of(name)!r} of shape {tuple(shape[:1])} beside them, or a scan (1, beams, "
                "rings); change the env's observation or add an encoder to navrl/agents/networks/encoders.py"
            )
    return leaves


def _upper_bound(spec: TensorSpec) -> float:
    return float(spec.high.max()) if isinstance(spec, Bounded) else 1.0


def mask_of(name: str) -> str:
    """The leaf that says which entities of the leaf `name` are present."""
    return f"{name}_mask"


def dense(inputs: int, sizes: Sequence[int], activation: str, *, option: str) -> nn.Sequential:
    """Linear layers with an activation after each; `option` is where the sizes come from."""
    check_sizes(sizes, option)
    layers: list[nn.Module] = []
    for before, width in itertools.pairwise([inputs, *sizes]):
        layers += [linear(before, width, 2.0**0.5), activation_of(activation)]
    return nn.Sequential(*layers)


def check_sizes(sizes: Sequence[int], option: str) -> None:
    """Refuse widths that make no layers; `option` is where they come from."""
    if not sizes or min(sizes) < 1:
        raise ValueError(
            f"agent.{option} = {list(sizes)}; expected one or more positive widths; change agent.{option}"
        )


def activation_of(name: str) -> nn.Module:
    """The activation that agent.activation names."""
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"agent.activation = {name!r}; expected one of {', '.join(_ACTIVATIONS)}; "
            "change agent.activation"
        )
    return _ACTIVATIONS[name]()


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """An orthogonal layer of this gain, without a bias at first."""
    layer = Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
