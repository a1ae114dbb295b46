"""Blocks of the coordinator's transformer; normalised after each sum, without dropout."""

import math

import torch
from torch import Tensor, nn

from navrl.agents.fast.products import Linear
from navrl.agents.networks.layers import linear

_SMALL = 0.01  # gain of layers in sums, so that a block begins as nearly the identity
_GAIN = 2.0**0.5


class Attention(nn.Module):
    """Queries (..., Q, width) over keys (..., K, width); `causal`: no look at later tokens."""

    def __init__(self, *, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.query, self.value, self.out = (linear(width, width, _SMALL) for _ in range(3))
        self.key = Linear(width, width, bias=False)  # which would raise all weights alike
        nn.init.orthogonal_(self.key.weight, _SMALL)
        self.heads, self.causal = heads, causal
        self._scale = 1.0 / math.sqrt(width // heads)

    def forward(self, query: Tensor, tokens: Tensor) -> Tensor:
        """(..., Q, width)."""
        q, k, v = (
            layer(rows).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for layer, rows in ((self.query, query), (self.key, tokens), (self.value, tokens))
        )
        weight = self._scale * q @ k.transpose(-1, -2)  # (..., heads, Q, K)
        if self.causal:
            later = torch.ones(weight.shape[-2:], dtype=torch.bool, device=weight.device).triu(1)
            weight = weight.masked_fill(later, -torch.inf)  # a token always sees itself
        return self.out((weight.softmax(-1) @ v).transpose(-2, -3).flatten(-2))


class EncoderBlock(nn.Module):
    """Everybody looks at everybody."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width=width, heads=heads, causal=False)
        self.layers = _layers(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        """(..., P, width), as it came."""
        first, second = self.norms
        tokens = first(tokens + self.attention(tokens, tokens))
        return second(tokens + self.layers(tokens))


class DecoderBlock(nn.Module):
    """What was chosen so far looks at itself; then what was encoded asks it."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross = (Attention(width=width, heads=heads, causal=True) for _ in range(2))
        self.layers = _layers(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, tokens: Tensor, encoded: Tensor) -> Tensor:
        """Tokens and encoded are (..., P, width); row i knows tokens up to i and all that was encoded."""
        first, second, third = self.norms
        tokens = first(tokens + self.own(tokens, tokens))
        rows = second(encoded + self.cross(encoded, tokens))
        return third(rows + self.layers(rows))


def _layers(width: int) -> nn.Sequential:
    return nn.Sequential(linear(width, width, _GAIN), nn.GELU(), linear(width, width, _SMALL))
