"""Named numbers that a curriculum changes while the run goes on: of reward terms, of what is drawn."""

import itertools
import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


class Coefficients:
    """One number per name, in a tensor that is written in place, so that no compiled step is remade."""

    def __init__(self, *, names: Iterable[str], weights: Mapping[str, float], setting: str) -> None:
        self.names = tuple(names)
        self.setting = setting  # the option that a complaint names
        self.tensor = torch.tensor(self._numbers(weights), dtype=torch.float32)  # (names,)

    def set(self, weights: Mapping[str, float]) -> None:
        """From now on these; one for every name."""
        self.tensor.copy_(torch.tensor(self._numbers(weights), dtype=torch.float32))

    def to(self, device: torch.device | str) -> None:
        """Live on this device."""
        self.tensor = self.tensor.to(device)

    def _numbers(self, weights: Mapping[str, float]) -> list[float]:
        """What the tensor holds, in the order of the names."""
        usable = all(_is_number(weight) for weight in weights.values())
        self._require(weights, usable, f"one finite number for each of {sorted(self.names)}")
        return [float(weights[name]) for name in self.names]

    def _require(self, weights: Mapping[str, float], usable: bool, expected: str) -> None:
        if set(weights) != set(self.names) or not usable:
            raise ValueError(
                f"{self.setting} = {dict(weights)}; expected {expected}; change {self.setting}"
            )


class Weights(Coefficients):
    """How often each name is drawn, relative to the others; the tensor holds the upper edges in [0, 1]."""

    def choose(self, draw: Tensor) -> Tensor:
        """The index of a name for every draw in [0, 1), int32."""
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


def _is_number(weight: object) -> bool:
    return isinstance(weight, (int, float)) and math.isfinite(weight)
