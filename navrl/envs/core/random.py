"""Counter-based random numbers: a hash of (seed, env id, episode, stream, index), no generator state.

Integer arithmetic only, so CPU and CUDA agree bit for bit, and env i plays the same episode in any
batch size, in any order, on any device.
"""

import torch
from torch import Tensor

# Streams: numbers for different purposes are independent.
SCENARIO, SCRIPT, LEAGUE, MIXTURE, WORLD, MOVING, NOISE, USERS, SHADOW, WALK = range(10)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(value: Tensor, bits: int) -> Tensor:
    """Shift logically; torch shifts signed integers arithmetically."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def mix(value: Tensor) -> Tensor:
    """Hash int64 by one step of splitmix64."""
    value = value + _GOLDEN
    value = (value ^ _shift_right(value, 30)) * _MIX_1
    value = (value ^ _shift_right(value, 27)) * _MIX_2
    return value ^ _shift_right(value, 31)


def episode_key(seed: Tensor, env_id: Tensor, episode: Tensor) -> Tensor:
    """Return the key of one episode of every env; int64, shape of env_id."""
    return mix(mix(mix(seed) ^ env_id) ^ episode)


def plain_seed(seed: int | None) -> int:
    """Return a whole number of 30 bits for generators of others; close seeds give distant numbers."""
    return int(mix(torch.tensor(int(seed or 0), dtype=torch.int64))) % (1 << 30)


def uniform(key: Tensor, stream: int, count: int) -> Tensor:
    """Draw `count` numbers in [0, 1) for every key, float32 (count, N)."""
    stream_key = mix(key ^ stream)
    index = torch.arange(count, device=key.device).unsqueeze(-1)
    bits = mix(stream_key.unsqueeze(0) ^ index)
    return _shift_right(bits, 40).to(torch.float32) * (1.0 / (1 << 24))


_COARSE_BITS = 12


def coarse(key: Tensor, stream: int, step: Tensor, count: int, parts: int) -> tuple[Tensor, ...]:
    """Draw `parts` times float32 (count, N): multiples of 1/4096 in [0, 1), for every key and step (N,).

    One hash yields all parts, which keeps draws in every step of many moving objects affordable.
    """
    if parts * _COARSE_BITS > 64:
        raise ValueError(f"parts = {parts}; expected at most 5, for 64 bits in all; draw twice")
    step_key = mix(mix(key ^ stream) ^ step.to(torch.int64))
    index = torch.arange(count, device=key.device).unsqueeze(-1)
    bits = mix(step_key.unsqueeze(0) ^ index)
    return tuple(
        (_shift_right(bits, 64 - _COARSE_BITS * (part + 1)) & ((1 << _COARSE_BITS) - 1)).float()
        * (1.0 / (1 << _COARSE_BITS))
        for part in range(parts)
    )
