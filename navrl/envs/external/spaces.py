"""Spaces of Gymnasium: observations as named vectors, actions as specs for which there are heads."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torchrl.data import Bounded, MultiCategorical, TensorSpec

from navrl.config.checks import ConfigError
from navrl.envs.external.base import ChoiceColumns, leaf_name, require_own_names, vectors


class Leaf(NamedTuple):
    """A part of an observation that becomes one vector."""

    name: str
    path: tuple[Any, ...]  # keys and places that lead from the whole observation to this part
    choices: ChoiceColumns | None  # of a discrete part, which becomes one-hot
    features: int

    def part(self, observation: Any) -> Any:
        """Return this part of an observation, or of a batch of them."""
        for key in self.path:
            observation = observation[key]
        return observation

    def vectors(self, parts: Any) -> Tensor:
        """Return a batch of parts (N, ...) as vectors (N, features)."""
        rows = torch.from_numpy(np.array(parts)).reshape(len(parts), -1)
        return vectors(rows, self.choices)


def observation_leaves(space: Any) -> list[Leaf]:
    """Return the vectors of an observation: one, or one for each key of a Dict or place of a Tuple."""
    leaves = [_leaf(part, path) for path, part in _parts(space, ())]
    require_own_names([leaf.name for leaf in leaves], "rename its keys")
    return leaves


def _parts(space: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every part that is neither a Dict nor a Tuple, and the way to it."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        inner = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        for key, part in inner:
            yield from _parts(part, (*path, key))
    else:
        yield path, space


def _leaf(space: Any, path: tuple[Any, ...]) -> Leaf:
    name = leaf_name(path)
    choices = _choices(space)
    if choices is not None:
        return Leaf(name, path, choices, sum(choices.sizes))
    if isinstance(space, spaces.Box):
        return Leaf(name, path, None, int(np.prod(space.shape)))
    raise ConfigError(
        f"the world's observation has the part {space}; expected Box, Discrete, MultiDiscrete, MultiBinary, "
        "or a Dict or Tuple of these; wrap the world so that it observes such"
    )


def _choices(space: Any) -> ChoiceColumns | None:
    """Return the columns of a discrete space, None of another."""
    if isinstance(space, spaces.Discrete):
        return ChoiceColumns([int(space.n)], np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return ChoiceColumns(space.nvec.ravel().tolist(), space.start.ravel())
    if isinstance(space, spaces.MultiBinary):
        columns = int(np.prod(space.shape))
        return ChoiceColumns([2] * columns, np.zeros(columns, int))
    return None


class Actions(NamedTuple):
    """The actions of a space: their spec (*shape, columns), and the way to the world's own."""

    spec: TensorSpec
    to_world: Callable[[Tensor], Any]


def actions_of(space: Any, shape: tuple[int, ...], device: Any) -> Actions:
    """Return the actions of a space, for all simulations at once."""
    choices, own_shape = _choices(space), (*shape, *space.shape)
    if choices is not None:
        columns = (*shape, len(choices.sizes))
        spec = MultiCategorical(choices.sizes, shape=columns, device=device)
        start = choices.start
    elif isinstance(space, spaces.Box) and np.isfinite([space.low, space.high]).all():
        low, high = (
            torch.as_tensor(x.ravel(), dtype=torch.float32) for x in (space.low, space.high)
        )
        columns = (*shape, low.numel())
        spec = Bounded(low.expand(columns), high.expand(columns), columns, device, torch.float32)
        start = np.zeros(1, np.float32)
    else:
        raise ConfigError(
            f"the world's action is {space}; expected a Box with finite bounds, Discrete, MultiDiscrete or "
            "MultiBinary; wrap the world so that it takes such, as gymnasium.wrappers.RescaleAction does"
        )
    return Actions(
        spec, lambda action: (action.cpu().numpy() + start).reshape(own_shape).astype(space.dtype)
    )
