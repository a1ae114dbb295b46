"""navrl.load: a trained policy that acts on plain arrays, without an env."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.agents.core.team import GROUP
from navrl.config.checks import ConfigError, did_you_mean
from navrl.config.plugins import own_plugins
from navrl.contracts import Env
from navrl.run.build import build_env
from navrl.run.device import own_threads, prepare_process
from navrl.run.policies import build_policy, find_policy

_GIVEN = ("action_mask", "alive")  # flags that are true where the caller leaves them out
Array = TypeVar("Array", np.ndarray, Tensor)


class Policy:
    """Observations to actions, of one simulation or of many at once; it keeps its memory between calls."""

    def __init__(self, module: Any, env: Env, label: str) -> None:
        self.label, self._module = label, module
        group = env.observation_spec.get(GROUP, None)
        self._group = None if group is None else group.shape[1:]
        keys = [key if isinstance(key, tuple) else (key,) for key in module.in_keys]
        self._keys = {key[-1]: key for key in keys if key in env.observation_spec.keys(True, True)}
        self._specs = {name: env.observation_spec[key] for name, key in self._keys.items()}
        self._action_key, self._device = env.action_key, env.device
        self._memory: TensorDict | None = None

    @property
    def observation(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part of an observation by its name, for one simulation."""
        return {name: tuple(spec.shape[1:]) for name, spec in self._specs.items()}

    def reset(self) -> None:
        """Forget everything: the next call is the first of new episodes in all simulations."""
        self._memory = None

    @torch.no_grad()
    def act(
        self,
        observation: Mapping[str, Array],
        *,
        deterministic: bool = True,
        begins: Array | None = None,
    ) -> Array:
        """Return the action for an observation, or for a batch (N, ...) of them, as arrays of the same kind.

        Without `deterministic` the action is drawn. A policy with a memory begins anew after reset(), and in
        the simulations (N,) where `begins` is true.
        """
        frame, single = self._frame(observation)
        if self._memory is not None:
            frame.update(self._continued(begins, frame.batch_size[0]))
        mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
        with set_exploration_type(mode):
            frame = self._module(frame)
        self._memory = frame.get("next", None)
        action: Tensor = frame.get(self._action_key).cpu()
        action = action[0] if single else action
        tensors = isinstance(next(iter(observation.values())), Tensor)
        return action if tensors else action.numpy()  # type: ignore[return-value]

    def _continued(self, begins: Any, size: int) -> TensorDict:
        """Return the memory of the last call, zeros where an episode begins."""
        memory: Any = self._memory
        if memory.batch_size[0] != size:
            raise ConfigError(
                f"the observation is of {size} simulations; expected {memory.batch_size[0]} as in the call "
                "before, which the policy remembers; call reset() first"
            )
        if begins is None:
            return memory
        fresh = torch.as_tensor(begins, device=self._device).reshape(-1)
        return memory.apply(
            lambda value: value.masked_fill(fresh.view(-1, *[1] * (value.ndim - 1)), 0)
        )

    def _frame(self, observation: Mapping[str, Any]) -> tuple[TensorDict, bool]:
        """Return the observation as the policy's module reads it, and whether it is of one simulation."""
        self._require_names(observation)
        given = {name: self._tensor(name, value) for name, value in observation.items()}
        shapes = self.observation
        sizes = {name: _batch(name, value, shapes[name]) for name, value in given.items()}
        if len(set(sizes.values())) > 1:
            raise ConfigError(f"the observation has the batch sizes {sizes}; expected one for all")
        (size,) = set(sizes.values())
        frame = TensorDict({}, batch_size=[size or 1], device=self._device)
        for name, spec in self._specs.items():
            ones = torch.ones(shapes[name], dtype=spec.dtype, device=self._device)
            value = given.get(name, ones).to(spec.dtype)
            frame.set(self._keys[name], value.expand(size or 1, *shapes[name]))
        if self._group is not None:
            frame.get(GROUP).batch_size = [size or 1, *self._group]
        return frame, size is None

    def _tensor(self, name: str, value: Any) -> Tensor:
        """Return one part of an observation, whose numbers are finite."""
        try:
            given = torch.as_tensor(value, device=self._device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"the part {name!r} of the observation is no array of numbers ({error}); expected one of "
                f"shape {self.observation[name]}"
            ) from error
        if not bool(given.isfinite().all()):
            raise ConfigError(
                f"the part {name!r} of the observation has numbers that are not finite"
            )
        return given

    def _require_names(self, observation: Mapping[str, Any]) -> None:
        """Raise ConfigError about parts that are missing or unknown."""
        if not isinstance(observation, Mapping):
            raise ConfigError(
                f"the observation is of {type(observation).__name__}; expected a dict of its parts, "
                f"{self.observation}"
            )
        unknown = [name for name in observation if name not in self._specs]
        missing = [n for n in self._specs if n not in observation and n not in _GIVEN]
        if unknown or missing or not observation:
            hint = did_you_mean(unknown[0], list(self._specs)) if unknown else ""
            raise ConfigError(
                f"the observation has the parts {sorted(observation)}; expected {self.observation}{hint}"
            )


def _batch(name: str, value: Tensor, shape: tuple[int, ...]) -> int | None:
    """Return the number of observations in an array, None for a single one without the axis."""
    if tuple(value.shape) == shape:
        return None
    if tuple(value.shape[1:]) == shape and value.ndim == len(shape) + 1 and len(value):
        return int(value.shape[0])
    raise ConfigError(
        f"the part {name!r} of the observation has shape {tuple(value.shape)}; expected {shape}, or "
        f"({', '.join(map(str, ('N', *shape)))}) for N simulations, 1 or more"
    )


@own_plugins()
@own_threads()
def load(name: str | PathLike[str] = "latest", *overrides: str, device: str = "cpu") -> Policy:
    """Return a policy by the name that commands take: latest, best, a run, a checkpoint or zoo:<name>.

    Overrides are those of `navrl evaluate`.
    """
    prepare_process(1)  # networks are built, which several threads do 50 x slower on a busy machine
    setup = find_policy(str(name), device=device, overrides=overrides)
    env = build_env(setup.config, num_envs=1, seed=0, compile_mode="off")
    module: Any = build_policy(str(name), setup.config, setup.state, env)
    if setup.state is None:
        raise ConfigError(
            f"'{name}' is scripted and reads the simulator's state; expected a trained policy; name a run or "
            "a checkpoint"
        )
    return Policy(module.requires_grad_(False).eval(), env, setup.label)
