"""Specs of an env as spaces of Gymnasium, and its frames as arrays."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Composite, MultiCategorical, TensorSpec

from navrl.config.checks import ConfigError, require

_ROUNDING = 1e-5  # of other libraries, in parts of the interval
MASK = "action_mask"  # true where a choice is allowed


def observation_space(spec: Composite, action: TensorSpec, dims: int) -> spaces.Dict:
    """Return the space of what one agent observes; the first `dims` axes are envs and agents.

    A mask is a part of it where actions are choices; other libraries take none with bounded columns.
    """
    leaves = dict(spec["observation"].items())
    if MASK in spec.keys() and isinstance(action, MultiCategorical):  # noqa: SIM118  (no iterator)
        leaves[MASK] = spec[MASK]
    return spaces.Dict({name: _leaf_space(leaf, dims) for name, leaf in leaves.items()})


def _leaf_space(spec: TensorSpec, dims: int) -> Any:
    shape = tuple(spec.shape[dims:])
    if spec.dtype == torch.bool:
        return spaces.MultiBinary(shape)
    if isinstance(spec, Bounded):
        low, high = (bound.reshape(-1, *shape)[0].numpy() for bound in (spec.low, spec.high))
        return spaces.Box(low.astype(np.float32), high.astype(np.float32))
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def observations(frame: TensorDictBase, space: spaces.Dict) -> dict[str, np.ndarray]:
    """Return the arrays of a frame, by the names of the space."""
    leaves = {**frame.get("observation"), MASK: frame.get(MASK, None)}
    return {name: leaves[name].cpu().numpy().astype(part.dtype) for name, part in space.items()}


def action_space(spec: TensorSpec) -> Any:
    """Return the space of what one agent does."""
    if isinstance(spec, MultiCategorical):
        choices = spec.nvec.reshape(-1, spec.shape[-1])[0].tolist()
        return spaces.MultiDiscrete(choices) if choices[1:] else spaces.Discrete(choices[0])
    if isinstance(spec, Bounded):
        low, high = (bound.reshape(-1, bound.shape[-1])[0] for bound in (spec.low, spec.high))
        return spaces.Box(low.cpu().numpy(), high.cpu().numpy())
    raise ConfigError(
        f"the env's action is {type(spec).__name__}; expected MultiCategorical or Bounded; choose another "
        "action"
    )


def actions(values: Any, spec: TensorSpec) -> Tensor:
    """Return actions of other libraries as the spec has them: within bounds, binary columns rounded."""
    given = np.asarray(values)
    fits = given.size == spec.shape.numel() and given.dtype.kind in "biuf"
    require(
        fits, "the action", f"an array of {given.dtype} and shape {given.shape}", _expected(spec)
    )
    exact = torch.as_tensor(given, device=spec.device).reshape(spec.shape)
    found = exact.to(spec.dtype)
    if isinstance(spec, Bounded):
        inside = found.clamp(spec.low, spec.high)
        fitting = (found - inside).abs() <= _ROUNDING * (spec.high - spec.low)  # which NaN is not
    else:
        inside, fitting = found, (exact == found) & (found >= 0) & (found < spec.nvec)
    if not bool(fitting.all()):
        wrong = exact[~fitting][0].item()
        raise ConfigError(f"the action has {wrong:g}; expected {_expected(spec)}")
    return spec.project(inside) if isinstance(spec, Bounded) else found


def _expected(spec: TensorSpec) -> str:
    """Return what the action of every agent may be, in words."""
    if isinstance(spec, Bounded):
        low, high = (
            bound.reshape(-1, bound.shape[-1])[0].tolist() for bound in (spec.low, spec.high)
        )
        return f"numbers of shape {tuple(spec.shape)} from {low} to {high}"
    choices = spec.nvec.reshape(-1, spec.shape[-1])[0].tolist()
    return f"choices of shape {tuple(spec.shape)}, from 0 and below {choices}"
