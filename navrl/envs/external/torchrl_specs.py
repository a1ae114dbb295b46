"""Specs of TorchRL: observations as named vectors, actions as specs for which there are heads.

Leaves of a spec have `lead` axes first: the env's, and the agents' in a team.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)

from navrl.config.checks import ConfigError
from navrl.envs.external.base import (
    ChoiceColumns,
    leaf_name,
    one_hot,
    require_own_names,
    vectors,
)

MASKS = ("action_mask", "mask")
_IMAGE_DIMS = 3  # channels, rows, columns
_MOST_CHOICES = 4096  # of one column: each is an output of the network


class Leaf(NamedTuple):
    """A part of an observation or of an action that becomes columns."""

    name: str
    key: tuple[str, ...]
    spec: TensorSpec
    lead: int
    choices: ChoiceColumns | None  # None of numbers

    @property
    def features(self) -> int:
        """Return the number of columns of the part as a vector."""
        if self.choices is None or self.choices.one_hot:
            return math.prod(self.spec.shape[self.lead :])
        return sum(self.choices.sizes)

    def vectors(self, values: Tensor) -> Tensor:
        """Return values (*lead, ...) as vectors (*lead, features): choices one-hot, all else as numbers."""
        rows = values.reshape(*self.spec.shape[: self.lead], -1)
        return vectors(rows, self.choices)

    def to_world(self, columns: Tensor) -> Tensor:
        """Return columns of an action as the world's own."""
        choices = self.choices
        if choices is not None and choices.one_hot:
            columns = one_hot(columns, choices.sizes)
        elif choices is not None:
            columns = columns + torch.as_tensor(choices.start)
        spec = self.spec
        return columns.reshape(spec.shape).to(device=spec.device, dtype=spec.dtype)


def leaf_specs(spec: Composite) -> Iterator[tuple[tuple[str, ...], TensorSpec]]:
    """Yield every leaf of a spec with its key."""
    for key, part in spec.items(include_nested=True, leaves_only=True):
        yield as_tuple(key), part


def as_tuple(key: NestedKey) -> tuple[str, ...]:
    """Return a key as a tuple of names."""
    return (key,) if isinstance(key, str) else tuple(key)


def observed(parts: Mapping[tuple[str, ...], TensorSpec], lead: int) -> list[Leaf]:
    """Return the vectors of an observation, named by the keys without the group of agents."""
    leaves = []
    for key, spec in parts.items():
        name = leaf_name(key[lead - 1 :])
        numbers = isinstance(spec, (Categorical, OneHot, Bounded, Unbounded))
        image = len(spec.shape) - lead >= _IMAGE_DIMS
        if not numbers or image:
            kind = f"an image of shape {tuple(spec.shape[lead:])}" if image else _named(spec)
            raise ConfigError(
                f"the world's observation has the part {_shown(key)}, {kind}; expected numbers or choices; "
                "encode or remove it in env.factory, as torchrl.envs.ExcludeTransform does"
            )
        leaves.append(Leaf(name, key, spec, lead, _choices(spec, lead, one_hot_flags=True)))
    change = "rename its keys in env.factory, as torchrl.envs.RenameTransform does"
    require_own_names([leaf.name for leaf in leaves], change)
    return leaves


class Actions(NamedTuple):
    """The actions of a world: our spec (*shape, columns), and the leaves that make up the world's own."""

    spec: TensorSpec
    leaves: list[Leaf]

    @property
    def mask_size(self) -> int:
        """Return the number of choices of all columns, 0 of numbers."""
        return sum(size for leaf in self.leaves if leaf.choices for size in leaf.choices.sizes)

    def to_world(self, action: Tensor) -> dict[tuple[str, ...], Tensor]:
        """Return the world's own action by its keys."""
        widths = [_columns(leaf) for leaf in self.leaves]
        parts = zip(self.leaves, torch.split(action, widths, -1), strict=True)
        return {leaf.key: leaf.to_world(columns) for leaf, columns in parts}


def actions_of(
    parts: Mapping[tuple[str, ...], TensorSpec],
    shape: Sequence[int],
    device: torch.device,
    bounds: Sequence[float] | None,
) -> Actions:
    """Return the actions of a world, all of whose parts are choices or all numbers within bounds."""
    lead = len(shape)
    leaves = [
        Leaf(leaf_name(key), key, spec, lead, _choices(spec, lead)) for key, spec in parts.items()
    ]
    if leaves and all(leaf.choices for leaf in leaves):
        sizes = [size for leaf in leaves if leaf.choices for size in leaf.choices.sizes]
        spec = MultiCategorical(sizes, shape=(*shape, len(sizes)), device=device)
        return Actions(spec, leaves)
    ends = [_bounds(leaf, bounds) for leaf in leaves if leaf.choices is None]
    if not leaves or len(ends) < len(leaves):
        raise ConfigError(
            f"the world's action is {_all_named(parts)}; expected only choices, or only numbers within "
            "bounds; change env.factory"
        )
    low, high = (torch.cat(side, -1).to(device) for side in zip(*ends, strict=True))
    return Actions(Bounded(low, high, low.shape, device, torch.float32), leaves)


def _bounds(leaf: Leaf, bounds: Sequence[float] | None) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest values (*lead, columns) of a part that is numbers."""
    spec, shape = leaf.spec, (*leaf.spec.shape[: leaf.lead], -1)
    if not isinstance(spec, (Bounded, Unbounded)) or not spec.dtype.is_floating_point:
        raise ConfigError(
            f"the world's action {_shown(leaf.key)} is {_named(spec)}; expected choices (Categorical, "
            "OneHot, MultiCategorical, MultiOneHot, Binary) or numbers within bounds; change env.factory"
        )
    low, high = (end.reshape(shape).float() for end in (spec.space.low, spec.space.high))
    if isinstance(spec, Unbounded) or not (high - low).isfinite().all():
        if bounds is None:
            raise ConfigError(
                f"the world's action {_shown(leaf.key)} has no finite bounds; expected bounds, because "
                "policies act within them; add env.action_bounds=[-1,1]"
            )
        low, high = (torch.full_like(low, float(end)) for end in bounds)
    return low, high


def _columns(leaf: Leaf) -> int:
    return leaf.features if leaf.choices is None else len(leaf.choices.sizes)


def _choices(spec: TensorSpec, lead: int, *, one_hot_flags: bool = False) -> ChoiceColumns | None:
    """Return the columns of discrete values, None of numbers.

    Flags that are observed are one-hot in the sense that they need no encoding.
    """
    columns = math.prod(spec.shape[lead:])
    if isinstance(spec, Binary) or (isinstance(spec, Categorical) and spec.dtype == torch.bool):
        return ChoiceColumns([2] * columns, one_hot=one_hot_flags)
    if isinstance(spec, MultiOneHot):
        sizes = [box.n for box in spec.space]
        return ChoiceColumns(sizes * (columns // sum(sizes)), one_hot=True)
    if isinstance(spec, OneHot):
        return ChoiceColumns([spec.space.n] * (columns // spec.space.n), one_hot=True)
    if isinstance(spec, MultiCategorical):
        sizes = spec.nvec.reshape(-1, spec.shape[-1])[0].tolist()
        return ChoiceColumns([int(size) for size in sizes] * (columns // len(sizes)))
    if isinstance(spec, Categorical):
        return ChoiceColumns([int(spec.space.n)] * columns)
    if isinstance(spec, Bounded) and not spec.dtype.is_floating_point and not one_hot_flags:
        return _whole_numbers(spec, columns)
    return None


def _whole_numbers(spec: Bounded, columns: int) -> ChoiceColumns | None:
    """Return an action of whole numbers as choices, None if they are too many."""
    low, high = int(spec.space.low.min()), int(spec.space.high.max())
    even = bool((spec.space.low == low).all() & (spec.space.high == high).all())
    fits = even and high - low < _MOST_CHOICES
    return ChoiceColumns([high - low + 1] * columns, start=low) if fits else None


def _shown(key: Sequence[str]) -> str:
    return repr("/".join(key))


def _named(spec: TensorSpec) -> str:
    return f"{type(spec).__name__} of {spec.dtype} and shape {tuple(spec.shape)}"


def _all_named(parts: Mapping[tuple[str, ...], TensorSpec]) -> str:
    return " and ".join(f"{_shown(key)}, {_named(spec)}" for key, spec in parts.items()) or "empty"
