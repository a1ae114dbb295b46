"""Named weights that a curriculum changes during a run: of reward terms, and of random choices."""

import itertools
import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from navrl.config.checks import require


class Coefficients:
    """One number per name, in a tensor that is written in place, so that no step is compiled anew."""

    def __init__(self, *, names: Iterable[str], weights: Mapping[str, float], setting: str) -> None:
        self.names = tuple(names)
        self.setting = setting  # the option that an error names
        self.tensor = torch.tensor(self._numbers(weights), dtype=torch.float32)  # (names,)

    def set(self, weights: Mapping[str, float]) -> None:
        """Use these numbers from now on; one for every name."""
        self.tensor.copy_(torch.tensor(self._numbers(weights), dtype=torch.float32))

    def to(self, device: torch.device | str) -> None:
        """Move to this device."""
        self.tensor = self.tensor.to(device)

    def _numbers(self, weights: Mapping[str, float]) -> list[float]:
        """Return the content of the tensor, in the order of the names."""
        usable = all(_is_number(weight) for weight in weights.values())
        self._require(weights, usable, f"one finite number for each of {sorted(self.names)}")
        return [float(weights[name]) for name in self.names]

    def _require(self, weights: Mapping[str, float], usable: bool, expected: str) -> None:
        fits = set(weights) == set(self.names) and usable
        require(fits, self.setting, dict(weights), expected)


class Weights(Coefficients):
    """Relative frequencies by which names are drawn; the tensor holds the upper edges in [0, 1]."""

    def choose(self, draw: Tensor) -> Tensor:
        """Return the index of a name for every draw in [0, 1), int32."""
        index = torch.zeros_like(draw, dtype=torch.int32)
        for edge in self.tensor[:-1].unbind():
            index = index + (draw >= edge).to(torch.int32)
        return index

    def _numbers(self, weights: Mapping[str, float]) -> list[float]:
        values = list(weights.values())
        usable = all(_is_number(weight) and weight >= 0.0 for weight in values) and sum(values) > 0
        expected = f"a weight of 0 or more, not all 0, for each of {sorted(self.names)}"
        self._require(weights, usable, expected)
        edges = list(itertools.accumulate(float(weights[name]) for name in self.names))
        return [edge / edges[-1] for edge in edges]  # on the host: every device compares the same


class Weighted:
    """A collection of named parts, whose `weights` a curriculum changes while a run goes on."""

    weights: Coefficients

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parts, in the order of the weights."""
        return self.weights.names

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Weigh the parts so from now on; choices per episode follow at each env's next episode."""
        self.weights.set(weights)


def _is_number(weight: object) -> bool:
    return isinstance(weight, (int, float)) and math.isfinite(weight)
