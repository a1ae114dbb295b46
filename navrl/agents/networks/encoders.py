"""Encoders of observations: sets of entities, and all leaves of an observation in one row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Bounded, Composite, TensorSpec

from navrl.agents.core.team import ALIVE
from navrl.agents.networks.layers import NetworkOptions, mlp
from navrl.agents.networks.lidar import Scan, scan_encoder
from navrl.envs.core.specs import mask_of

_SET_DIMS = 2  # entities, features
_SCAN_DIMS = 3  # 1, beams, rings
_ABSENT = -1e30  # below every output for an entity that is present


class Entities(NamedTuple):
    """The shape of a set of entities."""

    number: int  # at most
    features: int


class Leaves(NamedTuple):
    """The observation leaves of a spec by name, in alphabetical order."""

    vectors: dict[str, int]  # features
    # The leaf called mask_of(name) is true where an entity is present.
    entities: dict[str, Entities]
    scans: dict[str, Scan]

    @property
    def normalised(self) -> dict[str, int]:
        """The number of features of every leaf that has a normaliser."""
        return self.vectors | {name: entities.features for name, entities in self.entities.items()}


def observation_leaves(observation_spec: Composite) -> Leaves:
    """Find vectors (F,), entities (E, F) with a bool leaf (E,) beside them, and scans (1, beams, rings)."""
    spec = observation_spec["observation"]
    shapes = {name: spec[name].shape[len(spec.shape) :] for name in sorted(spec.keys())}
    masks = {
        name for name in shapes if name.endswith(mask_of("")) and spec[name].dtype == torch.bool
    }
    leaves = Leaves({}, {}, {})
    for name, shape in shapes.items():
        mask = mask_of(name)
        if name in masks:
            continue
        if len(shape) == 1:
            leaves.vectors[name] = shape[0]
        elif len(shape) == _SET_DIMS and mask in masks and shapes[mask] == shape[:1]:
            leaves.entities[name] = Entities(*shape)
        elif len(shape) == _SCAN_DIMS and shape[0] == 1:
            leaves.scans[name] = Scan(shape[1], shape[2], _upper_bound(spec[name]))
        else:
            raise ValueError(
                f"observation leaf {name!r} has shape {tuple(shape)}; expected a vector, or entities with a "
                f"bool leaf {mask!r} of shape {tuple(shape[:1])} beside them, or a scan (1, beams, "
                "rings); change the env's observation or add an encoder to navrl/agents/networks/encoders.py"
            )
    return leaves


def _upper_bound(spec: TensorSpec) -> float:
    return float(spec.high.max()) if isinstance(spec, Bounded) else 1.0


class ObservationEncoder(nn.Module):
    """All observation leaves of a frame as one row: vectors, then encoded sets, then encoded scans.

    `source` is the key that holds the leaves. Without normalisers the leaves are read as they are.
    """

    def __init__(
        self,
        leaves: Leaves,
        options: NetworkOptions,
        *,
        source: str = "observation",
        normalisers: nn.ModuleDict | None = None,
    ) -> None:
        super().__init__()
        self.vectors, self.entities, self.scans = (tuple(names) for names in leaves)
        self.source = source
        if normalisers is None:
            normalisers = nn.ModuleDict({name: nn.Identity() for name in leaves.normalised})
        self.normalisers = normalisers
        activation, sizes = options.activation, options.entity_sizes
        encoders: dict[str, Any] = {
            name: EntityEncoder(features=entities.features, sizes=sizes, activation=activation)
            for name, entities in leaves.entities.items()
        }
        for name, scan in leaves.scans.items():
            encoders[name] = scan_encoder(options.lidar_encoder, scan, activation)
        self.encoders = nn.ModuleDict(encoders)
        widths = [encoder.outputs for encoder in encoders.values()]
        self.outputs: int = sum([*leaves.vectors.values(), *widths])

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names of all leaves that are read, masks included."""
        masks = (mask_of(name) for name in self.entities)
        return (*self.vectors, *self.entities, *self.scans, *masks)

    def forward(self, frames: TensorDictBase) -> Tensor:
        """Encode frames (...) as rows (..., outputs)."""
        rows = [
            self.normalisers[name](frames.get((self.source, name)))
            for name in (*self.vectors, *self.entities)
        ]
        for place, name in enumerate(self.entities, len(self.vectors)):
            present = frames.get((self.source, mask_of(name)))
            rows[place] = self.encoders[name](rows[place], present)
        rows += [
            self.encoders[name](frames.get((self.source, name))).float() for name in self.scans
        ]
        return torch.cat(rows, -1) if len(rows) > 1 else rows[0]

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Merge the frames (B,) into the statistics, except dead agents and absent entities."""
        alive = frames.get(ALIVE, True)
        normaliser: Any
        for name, normaliser in self.normalisers.items():
            rows, counted = frames.get((self.source, name)), alive
            if name in self.entities:
                counted = (frames.get((self.source, mask_of(name))) & alive).reshape(-1, 1)
                rows = rows.flatten(0, 1)
            normaliser.update(rows, counted)


class EntityEncoder(nn.Module):
    """The mean and the maximum of an MLP's outputs over a set of entities of any order and number."""

    def __init__(self, *, features: int, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = mlp(features, sizes, activation, option="entity_sizes")
        self.outputs = 2 * sizes[-1]

    def forward(self, entities: Tensor, present: Tensor) -> Tensor:
        """Encode (..., E, F) and bool (..., E) as (..., outputs); zeros where no entity is present."""
        present = present.unsqueeze(-1)
        # The inputs are masked as well as the outputs: a NaN in there would return as a gradient.
        outputs = self.layers(torch.where(present, entities, 0.0)).float()
        # The outputs for absent entities are finite, so sums and products do: faster than where.
        counted = present.to(outputs.dtype)
        mean = (outputs * counted).sum(-2) / counted.sum(-2).clamp_min(1.0)
        # Not amax: its gradient, which equal maxima share, takes as long as the rest of a gradient step.
        highest = (outputs + (1.0 - counted) * _ABSENT).max(-2).values
        return torch.cat([mean, torch.where(present.any(-2), highest, 0.0)], -1)
