"""env=torchrl: any EnvBase of TorchRL that a class or function returns, under the keys of our envs.

`env.factory` names a class that torchrl.envs exports, or what a package allowed by plugins= defines. Its
parameter num_envs or batch_size, if it has one, gets the number of simulations; without one it returns a
single simulation, of which there are copies.
"""

import contextlib
import functools
import inspect
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from typing import Any, Unpack

import torch
import torchrl.envs
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite, TensorSpec
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv

from navrl.config import plugins
from navrl.config.build import parameters_of
from navrl.config.checks import ConfigError, did_you_mean, require, require_choice, require_number
from navrl.config.signals import ALL, blocked
from navrl.envs.core import specs
from navrl.envs.external.base import ExternalEnv, ExternalOptions, Moved, making
from navrl.envs.external.torchrl_specs import (
    MASKS,
    Actions,
    Leaf,
    actions_of,
    as_tuple,
    leaf_specs,
    observed,
)

VECTORIZATIONS = ("sync", "async")
_SIZES = ("num_envs", "batch_size")  # parameters that get the number of simulations
_TORCHRL = "torchrl.envs"
_KEY = "env.factory"


class TorchRLEnv(ExternalEnv):
    """N simulations of a world of TorchRL with one agent, or with a group of agents of one kind."""

    def __init__(
        self,
        *,
        factory: str | None,
        options: Mapping[str, Any],
        vectorization: str,
        action_bounds: Sequence[float] | None,
        **common: Unpack[ExternalOptions],
    ) -> None:
        require_choice("env.vectorization", vectorization, VECTORIZATIONS)
        if action_bounds is not None:
            _check_bounds(action_bounds)
        make = _factory(factory)
        super().__init__(**common)
        self._frame: TensorDictBase = TensorDict()  # to decide on next, as the world has it
        self._random_state = torch.random.get_rng_state()
        with self._own_random_state():
            self._inner = _simulations(
                functools.partial(make, **options), common["num_envs"], vectorization
            )
        try:
            self._read_specs(action_bounds)
        except BaseException:
            self._inner.close(raise_if_closed=False)  # which may be processes
            raise

    # ---- specs -------------------------------------------------------------------------------

    def _read_specs(self, bounds: Sequence[float] | None) -> None:
        """Find the agents, and read what they observe, do and are rewarded by."""
        moves = dict(leaf_specs(self._expanded(self._inner.full_action_spec)))
        seen = self._expanded(self._inner.full_observation_spec)
        self._group = _group(moves, seen)
        shape: tuple[int, ...] = tuple(self.batch_size)
        if self._group is not None:
            shape = (*shape, seen[self._group].shape[1])
        self._actions = actions_of(moves, shape, self.device, bounds)
        parts = dict(leaf_specs(seen))
        own = {key: spec for key, spec in parts.items() if _is_in(key, self._group)}
        self._mask = _mask_key(own, self._actions, len(shape))
        own.pop(self._mask or (), None)
        self._observed = observed(own, len(shape))
        others = {key: spec for key, spec in parts.items() if not _is_in(key, self._group)}
        self._state = observed(others, 1) if others else []
        self._reward_key = self._only_reward(shape)
        self._own_rewards = self._group is not None and len(self._reward_key) > 1
        self._done_keys = [as_tuple(key) for key in self._inner.done_keys]
        self._declare(shape)

    def _declare(self, shape: tuple[int, ...]) -> None:
        """Publish the specs under the keys of our envs."""
        features = {leaf.name: (leaf.features,) for leaf in self._observed}
        if self._group is None:
            leaves = specs.leaves_spec(features, shape, self.device)
            observation = Composite(observation=leaves, shape=shape, device=self.device)
            place, action, rewarded = observation, self._actions.spec, 0
        else:
            state = self._state or self._observed
            size = sum(leaf.features for leaf in state) * (1 if self._state else shape[1])
            observation, action = specs.team_specs(features, size, self._actions.spec)
            place, rewarded = observation["agents"], shape[1] * self._own_rewards
        if self._mask is not None:
            place["action_mask"] = specs.flag_spec((*shape, self._actions.mask_size), self.device)
        self.declare(observation, action, rewarded_agents=rewarded)

    def _only_reward(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        """Return the key of the reward: of the group if its agents have their own, else of the team."""
        found = dict(leaf_specs(self._expanded(self._inner.full_reward_spec)))
        for key, spec in found.items():
            numbers = shape if _is_in(key, self._group) else self.batch_size
            if len(found) == 1 and spec.shape.numel() == math.prod(numbers):
                return key
        shapes = {"/".join(key): tuple(spec.shape) for key, spec in found.items()}
        raise ConfigError(
            f"the world's rewards have the shapes {shapes}; expected one number for each simulation, or for "
            "each agent of the group; sum them in env.factory"
        )

    def _expanded(self, spec: Composite) -> Composite:
        """Return a spec with the axis of the simulations, which an env of any batch size leaves out."""
        return spec if spec.shape[:1] == self.batch_size else spec.expand(*self.batch_size)

    # ---- the step ----------------------------------------------------------------------------

    def advance(self, tensordict: TensorDictBase) -> Moved:
        """Step all simulations with the action in the TensorDict."""
        key = "action" if self._group is None else ("agents", "action")
        frame = self._frame.copy()
        for name, action in self._actions.to_world(tensordict.get(key)).items():
            frame.set(name, action)
        with self._own_random_state():
            stepped = self._inner.step(frame)
        ahead = stepped.get("next")
        self._frame = self._inner.step_mdp(stepped)
        reward = ahead.get(self._reward_key).reshape(*self.batch_size, -1).float().to(self.device)
        leaves = self._leaves(ahead)
        if self._own_rewards:
            leaves["agents/reward"] = reward.unsqueeze(-1)
        done, terminated, truncated = (
            self._flag(ahead, name) for name in ("done", "terminated", "truncated")
        )
        return Moved(leaves, reward.mean(1), terminated | (done & ~truncated), truncated)

    def begin(self, mask: Tensor | None) -> dict[str, Tensor]:
        """Begin new episodes where the mask (N,) is true, or everywhere; the first time with the seed."""
        with self._own_random_state():
            if mask is None or self._next_seed is not None:
                self._plant_seed()
                empty = TensorDict(batch_size=self.batch_size, device=self._inner.device)
                self._frame = self._inner.reset(None if self._inner.batch_locked else empty)
            else:
                self._frame = self._inner.reset(self._request(mask), select_reset_only=True)
        return self._leaves(self._frame)

    def _request(self, mask: Tensor) -> TensorDictBase:
        """Return the current frame with a request to begin again where the mask is true."""
        request = self._frame.copy()
        for key in map(as_tuple, self._inner.reset_keys):
            shape = request.get((*key[:-1], "done")).shape
            rows = mask.view(-1, *[1] * (len(shape) - 1)).expand(shape)
            request.set(key, rows.clone())
        return request

    def _plant_seed(self) -> None:
        """Seed the simulations; those of later ids get later seeds."""
        seed, self._next_seed = self._next_seed, None  # further episodes: their own generators
        if seed is None:
            return
        torch.manual_seed(seed)  # inside of _own_random_state
        self._inner.set_seed(seed)

    def _leaves(self, frame: TensorDictBase) -> dict[str, Tensor]:
        """Return the observations of a frame under our keys."""
        group = "" if self._group is None else "agents/"
        leaves = {
            f"{group}observation/{leaf.name}": self._vectors(leaf, frame) for leaf in self._observed
        }
        if self._group is not None:
            rows = [self._vectors(leaf, frame) for leaf in self._state] or [*leaves.values()]
            leaves["state"] = torch.cat([row.flatten(1) for row in rows], -1)
        if self._mask is not None:
            mask = frame.get(self._mask).to(self.device)
            leaves[f"{group}action_mask"] = mask.reshape(
                *self._actions.spec.shape[:-1], self._actions.mask_size
            )
        return leaves

    def _vectors(self, leaf: Leaf, frame: TensorDictBase) -> Tensor:
        return leaf.vectors(frame.get(leaf.key).to(self.device))

    def _flag(self, frame: TensorDictBase, name: str) -> Tensor:
        """Return a flag (N,) of all simulations, true if it is so for any agent; false if there is none."""
        keys = [key for key in self._done_keys if key[-1] == name]
        whole = [key for key in keys if len(key) == 1] or keys
        rows = [
            frame.get(key).to(self.device).reshape(*self.batch_size, -1).any(1) for key in whole
        ]
        return torch.stack([torch.zeros_like(self._totals[:, 0], dtype=torch.bool), *rows]).any(0)

    @contextlib.contextmanager
    def _own_random_state(self) -> Iterator[None]:
        """Use random numbers of this env inside the context: many worlds draw from torch's own generator."""
        others = torch.random.get_rng_state()
        torch.random.set_rng_state(self._random_state)
        try:
            yield
        finally:
            self._random_state = torch.random.get_rng_state()
            torch.random.set_rng_state(others)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the simulations, which may be processes."""
        self._inner.close(raise_if_closed=False)
        super().close(raise_if_closed=raise_if_closed)


# ---- which world ---------------------------------------------------------------------------------


def _factory(name: str | None) -> Callable[..., Any]:
    """Return the class or function of that name."""
    expected = (
        f"a class of {_TORCHRL} such as {_TORCHRL}.PendulumEnv, or a function of a package of yours"
    )
    place, _, attribute = str(name).rpartition(".")
    require(bool(place), _KEY, name, expected)
    if place == _TORCHRL:
        found = getattr(torchrl.envs, attribute, None)
        if attribute in _classes() and found is not None:
            make: Callable[..., Any] = found
            return make
        raise ConfigError(
            f"{_KEY} = {name}; expected {expected}{did_you_mean(attribute, _classes())}"
        )
    root = place.partition(".")[0]
    if root not in plugins.allowed():
        refused = f"{_KEY} = {name}; expected {expected}, which plugins= names"
        raise ConfigError(f"{refused}{plugins.advice(root)}")
    return plugins.find_target(str(name), _KEY)


def _check_bounds(bounds: Any) -> None:
    """Raise ConfigError unless the bounds are two numbers."""
    key, numbers = "env.action_bounds", isinstance(bounds, Sequence) and len(bounds)
    require(numbers == 2, key, bounds, "null, or [smallest, largest]")
    require_number(key, bounds[0])
    require_number(key, bounds[1], above=bounds[0])


def _classes() -> list[str]:
    """Return the names of the worlds that TorchRL exports."""
    found = {name: getattr(torchrl.envs, name) for name in torchrl.envs.__all__}
    return [n for n, item in found.items() if inspect.isclass(item) and issubclass(item, EnvBase)]


def _simulations(one: functools.partial[Any], num_envs: int, vectorization: str) -> EnvBase:
    """Return an env of that many simulations: the factory's own, or copies of its single one."""
    make = one.func
    parameters = parameters_of(make.__init__ if inspect.isclass(make) else make)
    sizes: dict[str, Any] = {"num_envs": num_envs, "batch_size": [num_envs]}
    given = {
        name: size
        for name, size in sizes.items()
        if name in parameters and name not in one.keywords
    }
    named = f"{make.__module__}.{make.__qualname__}"
    with making(_KEY, named, one.keywords):
        env = one(**given)
    require(isinstance(env, EnvBase), _KEY, f"{named}, which returns {env!r}", "an EnvBase")
    shape, many = tuple(env.batch_size), (num_envs,)
    expected = f"{list(many)} or [], since num_envs = {num_envs}"
    require(shape in (many, ()), _KEY, f"{named}, whose env has batch_size {list(shape)}", expected)
    if shape == many or not env.batch_locked:
        together = "sync, since this world steps all simulations together"
        require(vectorization == "sync", "env.vectorization", vectorization, together)
        return env
    env.close(raise_if_closed=False)
    if vectorization == "sync":
        return SerialEnv(num_envs, one)
    resource_tracker.ensure_running()  # by the first process it would let Ctrl-C through again
    # Ctrl-C reaches the whole group; a process that takes it cannot finish the iteration.
    with blocked(set(ALL) - {signal.SIGTERM}):
        processes = ParallelEnv(num_envs, one)
        processes.start()
    return processes


# ---- keys ----------------------------------------------------------------------------------------


def _group(moves: Mapping[tuple[str, ...], TensorSpec], seen: Composite) -> str | None:
    """Return the key of the group of agents, None of a single agent."""
    groups = {key[0] for key in moves if len(key) > 1 and key[0] in seen.keys()}  # noqa: SIM118
    teams = [name for name in groups if isinstance(seen[name], Composite) and seen[name].ndim > 1]
    if not teams:
        return None
    if len(groups) > 1 or any(len(key) == 1 for key in moves):
        raise ConfigError(
            f"the world's actions are {sorted('/'.join(key) for key in moves)}; expected those of one group "
            "of agents; put all agents into one group in env.factory, as MarlGroupMapType."
            "ALL_IN_ONE_GROUP does"
        )
    return teams[0]


def _is_in(key: tuple[str, ...], group: str | None) -> bool:
    return group is None or key[0] == group


def _mask_key(
    parts: Mapping[tuple[str, ...], TensorSpec], actions: Actions, lead: int
) -> tuple[str, ...] | None:
    """Return the key of the flags of allowed choices: as many as there are choices."""
    for key, spec in parts.items():
        fits = spec.shape[lead:].numel() == actions.mask_size and spec.dtype == torch.bool
        if key[-1] in MASKS and fits:
            return key
        if key[-1] == MASKS[0]:
            raise ConfigError(
                f"the world's action_mask has shape {tuple(spec.shape[lead:])} and {spec.dtype}; expected "
                f"{actions.mask_size} flags, one for each choice of the action; change env.factory"
            )
    return None
