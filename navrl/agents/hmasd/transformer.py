"""The transformer of the coordinator: normalised after each sum, without dropout."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from navrl.agents.fast.products import Linear, product
from navrl.agents.networks.layers import HIDDEN_GAIN, linear

SMALL_GAIN = 0.01  # of output layers, and of layers in sums: a block begins as nearly the identity


class Keys(NamedTuple):
    """The tokens of an attention as its queries read them, each (..., heads, K, width)."""

    directions: Tensor  # products with a query are scores
    offsets: Tensor  # (..., heads, K), of the scores
    contents: Tensor  # added up by the softmax of the scores

    def of(self, index: Tensor) -> "Keys":
        """Select rows, one for each number of the index."""
        return Keys(*(rows[index] for rows in self))

    def first(self, number: int) -> "Keys":
        """Return the keys of so many tokens."""
        directions, offsets, contents = self
        return Keys(directions[..., :number, :], offsets[..., :number], contents[..., :number, :])


class Attention(nn.Module):
    """Multi-head attention of queries (..., Q, width) over tokens (..., K, width).

    Only the product of the weights of query and key counts, and that of value and output. These are computed
    first: then tokens are multiplied once, while queries and the result are not multiplied at all.
    """

    def __init__(self, *, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.query, self.value, self.out = (linear(width, width, SMALL_GAIN) for _ in range(3))
        self.key = Linear(width, width, bias=False)  # a bias would raise all weights alike
        nn.init.orthogonal_(self.key.weight, SMALL_GAIN)
        self.heads, self.causal = heads, causal
        self._scale = 1.0 / math.sqrt(width // heads)

    def keys(self, tokens: Tensor) -> Keys:
        """Return the keys of tokens (..., K, width)."""
        heads, width = self.heads, tokens.shape[-1]  # each head has a part of the middle
        query, key, value = (
            layer.weight.view(heads, -1, width) for layer in (self.query, self.key, self.value)
        )
        key = self._scale * key
        out = self.out.weight.view(width, heads, -1).transpose(0, 1)
        weights = torch.cat([query.transpose(1, 2) @ key, out @ value])  # (2 heads, width, width)
        rows = product(tokens, weights.flatten(0, 1), None)
        rows = rows.view(*tokens.shape[:-1], 2 * heads, width).transpose(-2, -3)
        directions, contents = rows.chunk(2, -3)
        bias = (self.query.bias.view(heads, -1, 1) * key).sum(1)  # (heads, width)
        offsets = (tokens.unsqueeze(-3) * bias.unsqueeze(-2)).sum(-1)
        return Keys(directions, offsets, contents)

    def forward(self, query: Tensor, keys: Keys) -> Tensor:
        """Return (..., Q, width); `causal` attention sees no later token. Queries are of the last tokens."""
        scores = query.unsqueeze(-3) @ keys.directions.transpose(-1, -2)
        scores = scores + keys.offsets.unsqueeze(-2)  # (..., heads, Q, K)
        if self.causal:
            queries, tokens = scores.shape[-2:]
            every = torch.ones(queries, tokens, dtype=torch.bool, device=scores.device)
            later = every.triu(1 + tokens - queries)
            scores = scores.masked_fill(later, -torch.inf)  # a token always sees itself
        bias = self.out.bias + self.out.weight @ self.value.bias
        return (scores.softmax(-1) @ keys.contents).sum(-3) + bias


class EncoderBlock(nn.Module):
    """Self-attention of all tokens, then two linear layers."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width=width, heads=heads, causal=False)
        self.layers = _feed_forward(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens (..., P, width) of the same shape."""
        first, second = self.norms
        tokens = first(tokens + self.attention(tokens, self.attention.keys(tokens)))
        return second(tokens + self.layers(tokens))


class DecoderBlock(nn.Module):
    """Causal self-attention of the chosen skills, then causal attention of the encoded tokens over them."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross = (Attention(width=width, heads=heads, causal=True) for _ in range(2))
        self.layers = _feed_forward(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def keys(self, tokens: Tensor) -> Keys:
        """Return the keys of tokens (..., P, width), each of which knows those before it."""
        first = self.norms[0]
        return self.cross.keys(first(tokens + self.own(tokens, self.own.keys(tokens))))

    def forward(self, encoded: Tensor, keys: Keys) -> Tensor:
        """Return rows (R, Q, width) for encoded ones of the last Q tokens; each sees tokens up to its own."""
        _, second, third = self.norms
        rows = second(encoded + self.cross(encoded, keys))
        return third(rows + self.layers(rows))


def _feed_forward(width: int) -> nn.Sequential:
    return nn.Sequential(
        linear(width, width, HIDDEN_GAIN), nn.GELU(), linear(width, width, SMALL_GAIN)
    )
