"""env=gym: any id of Gymnasium, or a VectorEnv of one's own, under the keys of our envs with one agent."""

import signal
from collections.abc import Callable, Mapping
from multiprocessing import resource_tracker
from typing import Any, Unpack

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from navrl.config.checks import ConfigError, did_you_mean, require, require_choice
from navrl.config.signals import ALL, blocked
from navrl.envs.core import specs
from navrl.envs.external.base import ExternalEnv, ExternalOptions, Moved, making, needs

with needs("gymnasium", "env=gym needs Gymnasium"):
    import gymnasium
    from gymnasium.vector import AutoresetMode

    from navrl.envs.external.spaces import actions_of, observation_leaves

VECTORIZATIONS = ("auto", "native", "sync", "async")
_COUNTED = "alive"  # the leaf that marks frames whose actions have an effect, as in teams


class GymEnv(ExternalEnv):
    """N simulations stepped by one VectorEnv: that of an id, or what `worlds(num_envs)` returns."""

    def __init__(
        self,
        *,
        id: str | None,
        worlds: Callable[..., Any] | None,
        options: Mapping[str, Any],
        vectorization: str,
        **common: Unpack[ExternalOptions],
    ) -> None:
        require_choice("env.vectorization", vectorization, VECTORIZATIONS)
        expected = "an id of Gymnasium such as CartPole-v1, or null and a function as env.worlds"
        require((id is None) != (worlds is None), "env.id", id, expected)
        super().__init__(**common)
        num_envs = common["num_envs"]
        make = worlds or _vectorised(str(id), vectorization)
        resource_tracker.ensure_running()  # by the first process it would let Ctrl-C through again
        # Ctrl-C reaches the whole group; a process that takes it cannot finish the iteration. SIGTERM is
        # what ends processes.
        with making("env.id", id, options), blocked(set(ALL) - {signal.SIGTERM}):
            self._worlds = make(num_envs=num_envs, **options)
        self._restarts = _restarts_of(self._worlds)
        expected = "null, since this VectorEnv begins episodes by itself, or env.vectorization=sync"
        kind = type(self._restarts)
        require(
            common["horizon"] is None or kind is _Restarts,
            "env.horizon",
            common["horizon"],
            expected,
        )
        self._observed = observation_leaves(self._worlds.single_observation_space)
        self._actions = actions_of(self._worlds.single_action_space, (num_envs,), self.device)
        self._declare()

    def _declare(self) -> None:
        shape = self.batch_size
        leaves = {leaf.name: (leaf.features,) for leaf in self._observed}
        observation = Composite(
            observation=specs.leaves_spec(leaves, shape, self.device),
            shape=shape,
            device=self.device,
        )
        if self._restarts.wastes_a_step:
            observation[_COUNTED] = specs.flag_spec((*shape, 1), self.device)
        self.declare(observation, self._actions.spec)

    def advance(self, tensordict: TensorDictBase) -> Moved:
        """Step all simulations with the action in the TensorDict."""
        action = self._actions.to_world(tensordict.get("action"))
        counted = self._restarts.counted
        observations, reward, terminated, truncated = self._restarts.step(action)
        leaves = self._leaves(observations, np.ones_like(counted))
        rows = (self._row(reward).float(), self._row(terminated), self._row(truncated))
        return Moved(leaves, *rows, self._row(counted))

    def begin(self, mask: Tensor | None) -> dict[str, Tensor]:
        """Begin new episodes in finished simulations, or in all; the first time with the seed."""
        if mask is None or self._next_seed is not None:
            observations, _ = self._worlds.reset(seed=self._next_seed)
            self._next_seed = None  # further episodes come from the worlds' own generators
            self._restarts.begun()
        else:
            observations = self._restarts.begin(mask.cpu().numpy())
        return self._leaves(observations, self._restarts.counted)

    def _leaves(self, observations: Any, counted: np.ndarray) -> dict[str, Tensor]:
        leaves = {
            f"observation/{leaf.name}": leaf.vectors(leaf.part(observations)).to(self.device)
            for leaf in self._observed
        }
        if self._restarts.wastes_a_step:
            leaves[_COUNTED] = self._row(counted).unsqueeze(-1)
        return leaves

    def _row(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(np.array(values), device=self.device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the simulations, which may be processes."""
        self._worlds.close()
        super().close(raise_if_closed=raise_if_closed)


class _Restarts:
    """A VectorEnv whose finished simulations begin again when they are told to (AutoresetMode.DISABLED)."""

    wastes_a_step = False

    def __init__(self, worlds: Any) -> None:
        self.worlds = worlds
        self.counted = np.ones(
            worlds.num_envs, bool
        )  # False where the next step only begins an episode

    def begun(self) -> None:
        """Note that all simulations have begun an episode."""
        self.counted = np.ones_like(self.counted)

    def step(self, action: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return the observations at the end of the step, rewards, terminations and truncations."""
        return self.worlds.step(action)[:4]

    def begin(self, mask: np.ndarray) -> Any:
        """Begin the masked simulations again; return the observations of all."""
        return self.worlds.reset(options={"reset_mask": mask})[0]


class _SameStep(_Restarts):
    """A VectorEnv that begins finished simulations within the step (AutoresetMode.SAME_STEP)."""

    def step(self, action: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return the last observation of episodes that have ended; keep the first of the next ones."""
        self._begun, reward, terminated, truncated, infos = self.worlds.step(action)
        done = np.flatnonzero(terminated | truncated)
        observations = _copied(self._begun)
        for place in done.tolist():
            _put(observations, place, _taken(infos["final_obs"], place))
        return observations, reward, terminated, truncated

    def begin(self, mask: np.ndarray) -> Any:
        """Return the observations that the last step has kept."""
        return self._begun


class _NextStep(_Restarts):
    """A VectorEnv that begins finished simulations with the next step (AutoresetMode.NEXT_STEP).

    The action of that step has no effect, so that nothing is learned from it.
    """

    wastes_a_step = True

    def step(self, action: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return the outcome of the step: the first observation of an episode where another ended before."""
        self._seen, reward, terminated, truncated, _ = self.worlds.step(action)
        self.counted = ~(terminated | truncated)
        return self._seen, reward, terminated, truncated

    def begin(self, mask: np.ndarray) -> Any:
        """Return the observations as they are: the next step begins the masked simulations."""
        return self._seen


_RESTARTS = {
    AutoresetMode.DISABLED: _Restarts,
    AutoresetMode.SAME_STEP: _SameStep,
    AutoresetMode.NEXT_STEP: _NextStep,
}


def _restarts_of(worlds: Any) -> _Restarts:
    """Return how this VectorEnv begins new episodes."""
    mode = worlds.metadata.get("autoreset_mode")
    if mode not in _RESTARTS:
        raise ConfigError(
            f"metadata['autoreset_mode'] of {type(worlds).__name__} = {mode}; expected a "
            "gymnasium.vector.AutoresetMode; set it in the VectorEnv"
        )
    return _RESTARTS[mode](worlds)


def _vectorised(id: str, vectorization: str) -> Callable[..., Any]:
    """Return the maker of a VectorEnv of a registered id."""
    # Gymnasium imports the module of "module:id", and the id may come from a stranger's file.
    require(":" not in id, "env.id", id, "an id without a module, of a package that is installed")
    try:
        spec = gymnasium.spec(id)
    except gymnasium.error.Error as error:
        meant = did_you_mean(id, list(gymnasium.registry))
        raise ConfigError(
            f"env.id = {id}; expected an id of Gymnasium ({error}){meant or '; change env.id'}"
        ) from error
    native = spec.vector_entry_point is not None
    if vectorization == "native" and not native:
        raise ConfigError(
            f"env.vectorization = native, and {id} has no VectorEnv of its own; expected sync or async; "
            "change env.vectorization"
        )
    if vectorization in ("auto", "native") and native:
        return lambda **options: gymnasium.make_vec(
            id, vectorization_mode="vector_entry_point", **options
        )
    how = "sync" if vectorization == "auto" else vectorization
    kinds = {"autoreset_mode": AutoresetMode.DISABLED}
    return lambda **options: gymnasium.make_vec(
        id, vectorization_mode=how, vector_kwargs=kinds, **options
    )


def _copied(observations: Any) -> Any:
    """Return a copy of batched observations."""
    if isinstance(observations, Mapping):
        return {key: _copied(inner) for key, inner in observations.items()}
    if isinstance(observations, tuple):
        return tuple(map(_copied, observations))
    return np.array(observations)


def _taken(final: Any, place: int) -> Any:
    """Return the last observation of one simulation: batched as the others are, or an object for each."""
    if isinstance(final, Mapping):
        return {key: _taken(inner, place) for key, inner in final.items()}
    if isinstance(final, tuple):
        return tuple(_taken(inner, place) for inner in final)
    return final[place]


def _put(observations: Any, place: int, one: Any) -> None:
    """Write the observation of one simulation into those of all."""
    if isinstance(observations, Mapping):
        for key, inner in observations.items():
            _put(inner, place, one[key])
    elif isinstance(observations, tuple):
        for inner, part in zip(observations, one, strict=True):
            _put(inner, place, part)
    else:
        observations[place] = one
