"""Specs of observations, actions, rewards and flags; envs publish them and agents read them."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded

from navrl.config.checks import require, require_whole

AGENT_ID = "agent_id"  # the leaf of an observation that identifies the observing agent in its team


def mask_of(name: str) -> str:
    """Return the name of the observation leaf that is true where an entity of the leaf `name` is present."""
    return f"{name}_mask"


class _KeepsItsClass(type(Bounded)):  # type: ignore[misc]
    """Bounded's own metaclass turns every new instance, also of a subclass, into BoundedContinuous."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Return a new instance of the class that was called."""
        return ABCMeta.__call__(cls, *args, **options)


class Hybrid(Bounded, metaclass=_KeepsItsClass):
    """Bounded columns and then a binary one, which is 0 or 1, in one floating-point tensor (..., columns).

    An action mask for it has two columns per binary one: 0 is allowed, 1 is allowed. An action with more
    binary columns is a subclass with another `num_binary`: TorchRL rebuilds specs from bounds and shape,
    so anything else that a spec knows has to come with its class.
    """

    num_binary = 1

    def __init__(
        self,
        low: Sequence[float] | Tensor,
        high: Sequence[float] | Tensor,
        shape: Sequence[int],
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not isinstance(low, Tensor):  # written by a person; TorchRL copies specs with tensors
            binary = [*zip(low, high, strict=True)][-self.num_binary :]
            if len(low) <= self.num_binary or binary != [(0.0, 1.0)] * self.num_binary:
                raise ValueError(
                    f"{type(self).__name__}({low = }, {high = }); expected bounded columns and then "
                    f"{self.num_binary} with the bounds 0 and 1; change the env's action spec"
                )
        low, high = (
            torch.as_tensor(bound, dtype=dtype, device=device).expand(*shape).clone()
            for bound in (low, high)
        )
        super().__init__(low, high, shape, device, dtype)

    def rand(self, shape: Sequence[int] | None = None) -> Tensor:
        """Draw uniformly from the bounded columns, and 0 or 1 with equal chances for binary ones."""
        return self._rounded(super().rand(torch.Size(shape or ())))

    def is_in(self, val: Tensor) -> bool:
        """Return True if all values are within their bounds, and binary ones exactly 0 or 1."""
        return bool(super().is_in(val)) and torch.equal(val, self._rounded(val))

    def to(self, dest: torch.dtype | torch.device | str) -> Hybrid:
        """Return the spec on another device or of another dtype; Bounded's own method returns a Bounded."""
        spec = super().to(dest)
        return type(self)(spec.low, spec.high, spec.shape, spec.device, spec.dtype)

    def _project(self, val: Tensor) -> Tensor:
        return self._rounded(super()._project(val))

    def _rounded(self, values: Tensor) -> Tensor:
        bounded, binary = values.tensor_split([-self.num_binary], -1)
        return torch.cat([bounded, (binary >= 0.5).to(values.dtype)], -1)


class Action(Protocol):
    """The choices or numbers by which an agent acts."""

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return the spec of actions (*batch_shape, columns)."""


class Choices:
    """A choice in each column: a whole number from 0 to one less than its size."""

    def __init__(self, *sizes: int) -> None:
        for size in sizes:
            require_whole("specs.Choices", size, 2)
        require(bool(sizes), "specs.Choices", "()", "a number of choices for each column")
        self.sizes = sizes

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return the spec of actions (*batch_shape, columns)."""
        shape = (*batch_shape, len(self.sizes))
        return MultiCategorical(self.sizes, shape=shape, device=device)


class Bounds:
    """Columns of numbers between two bounds."""

    def __init__(self, low: float, high: float, columns: int = 1) -> None:
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        fits = numbers and 0.0 < high - low < float("inf")
        require(fits, "specs.Bounds", (low, high), "a low and a higher finite bound")
        require_whole("columns of specs.Bounds", columns, 1)
        self.low, self.high, self.columns = low, high, columns

    def spec(self, batch_shape: Sequence[int], device: torch.device | str) -> TensorSpec:
        """Return the spec of actions (*batch_shape, columns)."""
        shape = (*batch_shape, self.columns)
        return Bounded(self.low, self.high, shape=shape, device=device)


def flag_spec(shape: Sequence[int], device: Any) -> Categorical:
    """Return the spec of bool leaves."""
    return Categorical(2, shape=tuple(shape), dtype=torch.bool, device=device)


def leaves_spec(
    leaves: Mapping[str, tuple[int, ...]], shape: Sequence[int], device: Any
) -> Composite:
    """Return the spec of an observation from the shape of every leaf in one env, named with slashes.

    The first axis of leaves in the group "agents" is that of the agents. Leaves are flags if they are called
    alive, or if their name ends in "_mask"; else numbers.
    """
    root = Composite(shape=tuple(shape), device=device)
    for name, trailing in leaves.items():
        *groups, last = name.split("/")
        place, size = root, tuple(shape)
        for group in groups:
            size = (*shape, trailing[0]) if group == "agents" else size
            if group not in place.keys():  # noqa: SIM118  (no iterator)
                place[group] = Composite(shape=size, device=device)
            place = place[group]
        full = (*shape, *trailing)
        place[last] = flag_spec(full, device) if is_flag(last) else Unbounded(full, device=device)
    return root


def is_flag(leaf: str) -> bool:
    """Return whether a leaf of this name is bool."""
    return leaf == "alive" or leaf.endswith(mask_of(""))


def team_specs(
    leaves: Mapping[str, tuple[int, ...]], state_size: int, action: TensorSpec
) -> tuple[Composite, Composite]:
    """Return the specs of observation and action of a team, from the spec (N, A, columns) of its actions.

    Agents are the group "agents"; "state" is for a centralised critic.
    """
    num_envs, num_agents, _ = action.shape
    seen = {f"agents/observation/{name}": (num_agents, *shape) for name, shape in leaves.items()}
    seen["state"] = (state_size,)
    return leaves_spec(seen, (num_envs,), action.device), team_action_spec(action)


def team_action_spec(action: TensorSpec) -> Composite:
    """Return the spec of ("agents", "action") from the spec (N, A, columns) of all agents' actions."""
    shape, device = action.shape[:2], action.device
    group = Composite(action=action, shape=shape, device=device)
    return Composite(agents=group, shape=shape[:1], device=device)


def reward_spec(shape: torch.Size, rewarded_agents: int, device: Any) -> TensorSpec:
    """Return the spec of the team's reward (N, 1), and of ("agents", "reward") for agents with their own."""
    team = Unbounded((*shape, 1), device=device)
    if rewarded_agents == 0:
        return team
    group = (*shape, rewarded_agents)
    own = Composite(reward=Unbounded((*group, 1), device=device), shape=group, device=device)
    return Composite(reward=team, agents=own, shape=shape, device=device)


def done_spec(shape: torch.Size, device: Any) -> Composite:
    """Return the spec of done, terminated and truncated, (N, 1) each."""
    flags = {name: flag_spec((*shape, 1), device) for name in ("done", "terminated", "truncated")}
    return Composite(flags, shape=shape, device=device)
