"""What stands between an observation and the layers that decide: a normaliser, and an encoder of sets."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchrl.data import Composite

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "elu": nn.ELU}
_CLIP = 10.0
_SET_DIMS = 2  # entities, features


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
        finite = rows.isfinite().all(-1, keepdim=True) & counted
        rows = torch.where(finite, rows, 0.0)
        size = finite.sum().to(torch.float64)
        mean = rows.sum(0) / size.clamp_min(1.0)
        variance = (torch.where(finite, rows - mean, 0.0) ** 2).sum(0) / size.clamp_min(1.0)
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
        mean = torch.where(present, told, 0.0).sum(-2) / present.sum(-2).clamp_min(1)
        highest = torch.where(present, told, torch.finfo(told.dtype).min).amax(-2)
        return torch.cat([mean, torch.where(present.any(-2), highest, 0.0)], -1)


class Leaves(NamedTuple):
    """Features of every observation leaf by name, in alphabetical order."""

    vectors: dict[str, int]
    entities: dict[str, int]  # sets; the leaf called mask_of(name) says who is present


def observation_leaves(observation_spec: Composite) -> Leaves:
    """Vectors (F,), and entities (E, F) with a bool leaf (E,) beside them, which is no feature."""
    spec = observation_spec["observation"]
    shapes = {name: spec[name].shape[len(spec.shape) :] for name in sorted(spec.keys())}
    masks = {
        name for name in shapes if name.endswith(mask_of("")) and spec[name].dtype == torch.bool
    }
    leaves = Leaves({}, {})
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
            leaves.entities[name] = shape[1]
        else:
            raise ValueError(
                f"observation leaf {name!r} has shape {tuple(shape)}; expected a vector, or entities with a "
                f"bool leaf {mask_of(name)!r} of shape {tuple(shape[:1])} beside them; change the env's "
                "observation or add an encoder to navrl/agents/encoders.py"
            )
    return leaves


def mask_of(name: str) -> str:
    """The leaf that says which entities of the leaf `name` are present."""
    return f"{name}_mask"


def dense(inputs: int, sizes: Sequence[int], activation: str, *, option: str) -> nn.Sequential:
    """Linear layers with an activation after each; `option` is where the sizes come from."""
    if not sizes or min(sizes) < 1:
        raise ValueError(
            f"agent.{option} = {list(sizes)}; expected one or more positive widths; change agent.{option}"
        )
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"agent.activation = {activation!r}; expected one of {', '.join(_ACTIVATIONS)}; "
            "change agent.activation"
        )
    layers: list[nn.Module] = []
    for before, width in itertools.pairwise([inputs, *sizes]):
        layers += [linear(before, width, 2.0**0.5), _ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """An orthogonal layer of this gain, without a bias at first."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
