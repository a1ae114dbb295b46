"""Layers of all networks: normaliser, orthogonal linear layers, activations, multilayer perceptrons."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from navrl.agents.fast.products import Linear, product
from navrl.config.checks import require, require_choice

_CLIP = 10.0  # of normalised observations
HIDDEN_GAIN = 2.0**0.5  # of layers that an activation follows

_ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
}


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The options `agent.network` of every algorithm."""

    hidden_sizes: Sequence[int]
    entity_sizes: Sequence[int]
    lidar_encoder: str
    activation: str


class LayerNormMLP(nn.Sequential):
    """Linear layers with an activation; the inputs and every layer are normalised by LayerNorm.

    LayerNorm needs no statistics of earlier rollouts, so the same weights are always the same policy.
    """

    def __init__(self, inputs: int, options: NetworkOptions) -> None:
        check_sizes(options.hidden_sizes, "hidden_sizes")
        layers: list[nn.Module] = [nn.LayerNorm(inputs)]
        for before, width in itertools.pairwise([inputs, *options.hidden_sizes]):
            layers += [
                linear(before, width, HIDDEN_GAIN),
                activation_of(options.activation),
                nn.LayerNorm(width),
            ]
        super().__init__(*layers)
        self.outputs = options.hidden_sizes[-1]

    def forward(self, rows: Tensor) -> Tensor:
        """Return the normalised outputs of the last layer."""
        *hidden, last = self
        for place in range(0, len(hidden), 3):
            norm, layer, activation = hidden[place : place + 3]
            rows = activation(after_norm(norm, layer, rows))
        return last(rows)


def after_norm(norm: Any, layer: Any, rows: Tensor) -> Tensor:
    """Compute layer(norm(rows)) of a LayerNorm and a linear layer with one product less.

    The norm's gain and shift are multiplied into the layer first. What is left of the norm has no parameters,
    so rows that need no gradient, such as observations, get none.
    """
    weight, bias = layer.weight, layer.bias
    plain = functional.layer_norm(rows, rows.shape[-1:], eps=norm.eps)
    return product(plain, weight * norm.weight, bias + (weight * norm.bias).sum(-1))


def mlp(inputs: int, sizes: Sequence[int], activation: str, *, option: str) -> nn.Sequential:
    """Return linear layers with an activation after each; `option` is the option that gives the sizes."""
    check_sizes(sizes, option)
    layers: list[nn.Module] = []
    for before, width in itertools.pairwise([inputs, *sizes]):
        layers += [linear(before, width, HIDDEN_GAIN), activation_of(activation)]
    return nn.Sequential(*layers)


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Return a layer with orthogonal weights of this gain and a bias of zeros."""
    layer = Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def activation_of(name: str) -> nn.Module:
    """Return the activation that agent.network.activation names."""
    require_choice("agent.network.activation", name, _ACTIVATIONS)
    return _ACTIVATIONS[name]()


def check_sizes(sizes: Sequence[int], option: str) -> None:
    """Raise ConfigError unless there is a width and all are positive; `option` gives the widths."""
    whole = bool(sizes) and min(sizes) >= 1
    require(whole, f"agent.network.{option}", list(sizes), "one or more positive widths")


class Normaliser(nn.Module):
    """Running mean and variance of observation rows; part of the policy, so it is saved with it."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of about unit scale, clipped."""
        return ((rows - self.mean) * torch.rsqrt(self.variance + 1e-4)).clamp(-_CLIP, _CLIP)

    @torch.no_grad()
    def update(self, rows: Tensor, counted: Tensor | bool = True) -> None:
        """Merge a batch (B, F); rows that are not finite, or not `counted` (B, 1), do not count."""
        # Every number of a row with a finite sum is finite. A row of finite numbers whose sum overflows is
        # left out too. The rest works in one buffer: allocating memory costs more than sums.
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
