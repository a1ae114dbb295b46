"""Encoders of lidar scans (..., 1, beams, rings), one row each; beams go around, rings from low to high."""

from torch import Tensor, cat, nn
from torch.nn import functional

from navrl.agents.fast.products import Linear
from navrl.agents.networks.encoders import Scan, dense

_MLP_SIZES = (256, 128)
_CHANNELS = 16
_OUTPUTS = 128


class ScanMlp(nn.Module):
    """Looks at all ranges at once. On a CPU it learns twice as fast as a convolution."""

    def __init__(self, *, scan: Scan, activation: str) -> None:
        super().__init__()
        self.layers = dense(scan.beams * scan.rings, _MLP_SIZES, activation, option="lidar_encoder")
        self.outputs, self._scale = _MLP_SIZES[-1], 1.0 / scan.largest

    def forward(self, scan: Tensor) -> Tensor:
        """(..., 1, beams, rings) to (..., outputs)."""
        return self.layers(self._scale * scan.flatten(-3))


class ScanCnn(nn.Module):
    """Three convolutions that halve the beams twice and the rings once, and a layer over what they leave."""

    def __init__(self, *, scan: Scan, circular: bool) -> None:
        super().__init__()
        convolution = _Around if circular else nn.Conv2d
        left = _halved(_halved(scan.beams)) * _halved(scan.rings)
        self.layers = nn.Sequential(
            convolution(1, 4, (5, 3), padding=(2, 1)),
            nn.ELU(),
            convolution(4, _CHANNELS, (5, 3), stride=(2, 1), padding=(2, 1)),
            nn.ELU(),
            convolution(_CHANNELS, _CHANNELS, (5, 3), stride=(2, 2), padding=(2, 1)),
            nn.ELU(),
            nn.Flatten(),
            Linear(_CHANNELS * left, _OUTPUTS),
            nn.LayerNorm(_OUTPUTS),
        )
        self.outputs, self._scale = _OUTPUTS, 1.0 / scan.largest

    def forward(self, scan: Tensor) -> Tensor:
        """(..., 1, beams, rings) to (..., outputs)."""
        rows = self.layers(self._scale * scan.reshape(-1, *scan.shape[-3:]))
        return rows.view(*scan.shape[:-3], self.outputs)


class _Around(nn.Conv2d):
    """A convolution for which the last beam is the neighbour of the first, as it is on a lidar."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, channels, beams, rings)."""
        width, height = (int(size) for size in self.padding)
        wrapped = cat([input[..., -width:, :], input, input[..., :width, :]], -2)
        return functional.conv2d(wrapped, self.weight, self.bias, self.stride, (0, height))


_ENCODERS = ("mlp", "cnn", "cnn_circular")


def scan_encoder(kind: str, scan: Scan, activation: str) -> ScanMlp | ScanCnn:
    """The encoder that agent.lidar_encoder names."""
    if kind not in _ENCODERS:
        raise ValueError(
            f"agent.lidar_encoder = {kind!r}; expected one of {', '.join(_ENCODERS)}; "
            "change agent.lidar_encoder"
        )
    if kind == "mlp":
        return ScanMlp(scan=scan, activation=activation)
    return ScanCnn(scan=scan, circular=kind == "cnn_circular")


def _halved(size: int) -> int:
    """What a stride of 2 leaves of it."""
    return (size + 1) // 2
