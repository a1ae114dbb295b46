"""Encoders of lidar scans (..., 1, beams, rings) to one row each."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, cat, nn
from torch.nn import functional

from navrl.agents.fast.products import Linear
from navrl.agents.networks.layers import mlp
from navrl.config.checks import require_choice

_MLP_SIZES = {"mlp": (256, 128), "mlp_small": (128, 64)}
_ENCODERS = (*_MLP_SIZES, "cnn", "cnn_circular")
_CHANNELS = 16
_OUTPUTS = 128


class Scan(NamedTuple):
    """The shape of a lidar's scan: beams around, rings from low to high."""

    beams: int
    rings: int
    largest: float  # the upper bound in the spec, 1 where it has none: divided by it a scan has unit scale


class ScanMLP(nn.Module):
    """A multilayer perceptron over all ranges. On a CPU it learns twice as fast as a convolution."""

    def __init__(self, *, scan: Scan, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = mlp(scan.beams * scan.rings, sizes, activation, option="lidar_encoder")
        self.outputs, self._scale = sizes[-1], 1.0 / scan.largest

    def forward(self, scan: Tensor) -> Tensor:
        """Encode (..., 1, beams, rings) as (..., outputs)."""
        return self.layers(self._scale * scan.flatten(-3))


class ScanCNN(nn.Module):
    """Three convolutions that halve the beams twice and the rings once, then a linear layer."""

    def __init__(self, *, scan: Scan, circular: bool) -> None:
        super().__init__()
        convolution = _CircularConv2d if circular else nn.Conv2d
        cells = _halved(_halved(scan.beams)) * _halved(scan.rings)
        self.layers = nn.Sequential(
            convolution(1, 4, (5, 3), padding=(2, 1)),
            nn.ELU(),
            convolution(4, _CHANNELS, (5, 3), stride=(2, 1), padding=(2, 1)),
            nn.ELU(),
            convolution(_CHANNELS, _CHANNELS, (5, 3), stride=(2, 2), padding=(2, 1)),
            nn.ELU(),
            nn.Flatten(),
            Linear(_CHANNELS * cells, _OUTPUTS),
            nn.LayerNorm(_OUTPUTS),
        )
        self.outputs, self._scale = _OUTPUTS, 1.0 / scan.largest

    def forward(self, scan: Tensor) -> Tensor:
        """Encode (..., 1, beams, rings) as (..., outputs)."""
        rows = self.layers(self._scale * scan.reshape(-1, *scan.shape[-3:]))
        return rows.view(*scan.shape[:-3], self.outputs)


class _CircularConv2d(nn.Conv2d):
    """A convolution for which the last beam is the neighbour of the first, as it is on a lidar."""

    def forward(self, input: Tensor) -> Tensor:
        """Convolve (B, channels, beams, rings)."""
        width, height = (int(size) for size in self.padding)
        wrapped = cat([input[..., -width:, :], input, input[..., :width, :]], -2)
        return functional.conv2d(wrapped, self.weight, self.bias, self.stride, (0, height))


def scan_encoder(kind: str, scan: Scan, activation: str) -> ScanMLP | ScanCNN:
    """Return the encoder that agent.network.lidar_encoder names."""
    require_choice("agent.network.lidar_encoder", kind, _ENCODERS)
    if kind in _MLP_SIZES:
        return ScanMLP(scan=scan, sizes=_MLP_SIZES[kind], activation=activation)
    return ScanCNN(scan=scan, circular=kind == "cnn_circular")


def _halved(size: int) -> int:
    """Return the size after a stride of 2."""
    return (size + 1) // 2
