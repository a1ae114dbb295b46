"""The TorchRL skin of every batched simulator: masked resets, honest flags, statistics, one fast path.

A subclass supplies pure functions over NamedTuples of tensors (env axis last):
    initial(key) -> state                         the opening of the episodes with these keys
    advance(state, action, given) -> (state, events)      one decision of everybody
    outside() -> given                                    what no compiled step can decide, by default nothing
    observe(state) -> {leaf: tensor}              what a policy is told, e.g. "observation/ego" (features, N)
    judge(state) -> (terminated, truncated)       bool (N,)
    score(before, after, events, terminated, truncated)   reward (N,) and its parts
    statistics(state) -> rows                     what is worth knowing of an episode at its end, (N,)
and the specs of what it tells and of its action. The leaves of several agents are in the group "agents",
as "agents/observation/ego" (agents, features, N).
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils import _pytree as pytree
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from navrl.envs.core import random, specs
from navrl.envs.core.compiling import Compiled
from navrl.envs.core.packing import Packed, Packing, pack


class World(NamedTuple):
    """All that an env remembers between two steps."""

    state: Any  # the subclass's NamedTuple
    episode: Tensor  # int64 (N,), which episode of this env id
    length: Tensor  # float32 (N,), steps so far
    totals: Tensor  # float32 (1 + parts, N), return and reward parts so far


class BatchedEnv(EnvBase):
    """N simulations that step together; see the module docstring for the hooks."""

    scripts: str | None = None  # the group whose options can fly in the learner's seat
    counted_when = specs.ALWAYS  # statistic: the rate of the episodes that it is a mean over

    def __init__(
        self,
        *,
        num_envs: int,
        device: torch.device | str,
        seed: int,
        first_env_id: int,
        compile_mode: str | bool,
        observation_spec: Composite,
        action_spec: TensorSpec,
        reward_parts: tuple[str, ...],
        statistic_names: tuple[str, ...],
        rate_names: tuple[str, ...],
        rewarded_agents: int = 0,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs = {num_envs}; expected 1 or more; change num_envs")
        super().__init__(device=torch.device(device), batch_size=[num_envs])
        self.compile_mode = compile_mode
        self.episode_keys = (
            *("return", "length"),
            *statistic_names,
            *(f"reward_{name}" for name in reward_parts),
        )
        self.statistic_names = statistic_names
        self.rate_names = rate_names  # the statistics that are 0 or 1
        self._num_parts = len(reward_parts)
        self._declare(observation_spec, action_spec, rewarded_agents)
        self._env_id = torch.arange(num_envs, device=self.device) + first_env_id
        self._false = torch.zeros(num_envs, 1, dtype=torch.bool, device=self.device)
        self._packed: Packed | None = None  # the World of now
        self._whole_step = Compiled(self._whole_step_eager, compile_mode)
        self._set_seed(seed)
        self._packing = Packing(self._opening(torch.zeros_like(self._env_id), self._seed))

    # ---- hooks -------------------------------------------------------------------------------

    def initial(self, key: Tensor) -> Any:
        """The opening state of the episodes with these keys."""
        raise TypeError(f"{type(self).__name__} lacks initial(key) -> state")

    def advance(self, state: Any, action: Tensor, given: Any) -> tuple[Any, Any]:
        """The state one decision later, and what happened on the way."""
        raise TypeError(f"{type(self).__name__} lacks advance(...) -> (state, events)")

    def outside(self) -> Any:
        """What is decided before the compiled step, because it cannot be compiled."""
        return None

    def observe(self, state: Any) -> dict[str, Tensor]:
        """Every leaf of the observation spec but the episode, by its name with slashes; env axis last."""
        raise TypeError(f"{type(self).__name__} lacks observe(state) -> leaves")

    def judge(self, state: Any) -> tuple[Tensor, Tensor]:
        """Terminated and truncated, bool (N,)."""
        raise TypeError(f"{type(self).__name__} lacks judge(state) -> (terminated, truncated)")

    def score(
        self, before: Any, after: Any, events: Any, terminated: Tensor, truncated: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Reward (N,) and its weighted parts."""
        raise TypeError(f"{type(self).__name__} lacks score(...) -> (reward, parts)")

    def own_rewards(
        self, before: Any, after: Any, events: Any, terminated: Tensor, truncated: Tensor
    ) -> Tensor | None:
        """Where agents are paid each on their own: what they get, (A, N), beside the team's reward."""
        return None

    def statistics(self, state: Any) -> list[Tensor]:
        """What is worth knowing of an episode at its end, one (N,) per statistic name."""
        raise TypeError(f"{type(self).__name__} lacks statistics(state) -> rows")

    # ---- the step ----------------------------------------------------------------------------

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Fast path of collectors: one decision and a masked restart, no host synchronisation."""
        packed, action = self._started(), tensordict.get(self.action_key)
        self._packed, ahead, root = self._whole_step(packed, action, self.outside(), self._seed)
        upcoming = self._tensordict(ahead)
        opening = self._tensordict({**root, **self._never_done()})
        handed_over = tensordict.pop("next", None)
        if handed_over is not None:
            carry(handed_over, upcoming, opening)
        tensordict.set("next", upcoming)
        return tensordict, opening

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Honest slow path: one decision, nobody restarts."""
        world, action = self._world, tensordict.get(self.action_key)
        after, events = self.advance(world.state, action, self.outside())
        self._world, leaves = self._settle(world, after, events)
        return self._tensordict(leaves)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        """Honest slow path: the masked envs, or all, begin their next episode."""
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if self._packed is None:
            world = self._opening(torch.zeros_like(self._env_id), self._seed)
        else:
            everyone = ~self._false.squeeze(-1)
            chosen = everyone if mask is None else mask.reshape(self._env_id.shape)
            world = self._restarted(self._world, chosen, self._seed)
        self._world = world
        # Copies: whoever asked for a reset may write into what it got.
        flags = {name: flag.clone() for name, flag in self._never_done().items()}
        return self._tensordict({**self._leaves(world), **flags})

    def _whole_step_eager(
        self, packed: Packed, action: Tensor, given: Any, seed: Tensor
    ) -> tuple[Packed, dict[str, Tensor], dict[str, Tensor]]:
        world: World = self._packing.unpack(packed)
        after, events = self.advance(world.state, action, given)
        settled, ahead = self._settle(world, after, events)
        restarted = self._restarted(settled, ahead["done"].squeeze(-1), seed)
        return pack(restarted), ahead, self._leaves(restarted)

    def _settle(self, world: World, after: Any, events: Any) -> tuple[World, dict[str, Tensor]]:
        """Judge and score the step; the world that has not restarted yet, and what "next" holds."""
        terminated, truncated = self.judge(after)
        truncated = truncated & ~terminated
        reward, parts = self.score(world.state, after, events, terminated, truncated)
        settled = World(
            state=after,
            episode=world.episode,
            length=world.length + 1.0,
            totals=world.totals + torch.stack([reward, *parts]),
        )
        flags = {"terminated": terminated, "truncated": truncated, "done": terminated | truncated}
        leaves = self._leaves(settled)
        leaves["reward"] = reward.unsqueeze(-1)
        own = self.own_rewards(world.state, after, events, terminated, truncated)
        if own is not None:
            leaves["agents/reward"] = own.t().unsqueeze(-1)
        return settled, {**leaves, **{name: flag.unsqueeze(-1) for name, flag in flags.items()}}

    def _opening(self, episode: Tensor, seed: Tensor) -> World:
        key = random.episode_key(seed, self._env_id, episode)
        return World(
            state=self.initial(key),
            episode=episode,
            length=torch.zeros_like(key, dtype=torch.float32),
            totals=torch.zeros(1 + self._num_parts, key.shape[0], device=key.device),
        )

    def _restarted(self, world: World, mask: Tensor, seed: Tensor) -> World:
        """The world in which the masked envs have begun their next episode."""
        fresh = self._opening(world.episode + 1, seed)
        merge = lambda new, old: torch.where(mask, new, old)  # noqa: E731
        return pytree.tree_map(merge, fresh, world)

    def _leaves(self, world: World) -> dict[str, Tensor]:
        """Observation, mask and episode statistics as TorchRL wants them: env axis first."""
        told = self.observe(world.state)
        episode = [world.totals[0], world.length, *self.statistics(world.state), *world.totals[1:]]
        leaves = {name: leaf.movedim(-1, 0).contiguous() for name, leaf in told.items()}
        leaves["episode"] = torch.stack(episode, dim=-1)
        return leaves

    # ---- TorchRL's side ----------------------------------------------------------------------

    def _declare(self, observation: Composite, action: TensorSpec, rewarded_agents: int) -> None:
        shape, device = self.batch_size, self.device

        def flag(*trailing: int) -> Categorical:
            return Categorical(2, shape=(*shape, *trailing), dtype=torch.bool, device=device)

        observation["episode"] = Unbounded((*shape, len(self.episode_keys)), device=device)
        self.observation_spec = observation
        self.action_spec = action
        self.reward_spec = specs.reward_spec(shape, rewarded_agents, device)
        self.full_done_spec = Composite(
            done=flag(1), terminated=flag(1), truncated=flag(1), shape=shape, device=device
        )

    def _tensordict(self, leaves: dict[str, Tensor]) -> TensorDict:
        """Leaves named "group/leaf" become nested; unchecked, because the step made the shapes."""
        nested: dict[str, Any] = {}
        for name, value in leaves.items():
            *groups, leaf = name.split("/")
            place = nested
            for group in groups:
                place = place.setdefault(group, {})
            place[leaf] = value
        return self._unchecked(nested, self.batch_size)

    def _unchecked(self, values: dict[str, Any], batch_size: torch.Size) -> TensorDict:
        found = {
            key: self._unchecked(value, self._group_size(key, batch_size))
            if isinstance(value, dict)
            else value
            for key, value in values.items()
        }
        return TensorDict._new_unsafe(found, batch_size=batch_size, device=self.device)

    def _group_size(self, key: str, batch_size: torch.Size) -> torch.Size:
        """A group of agents has their axis; other groups are as wide as what holds them."""
        spec = self.observation_spec
        return spec[key].shape if key in spec.keys() else batch_size  # noqa: SIM118  (no iterator)

    def _never_done(self) -> dict[str, Tensor]:
        return dict.fromkeys(("done", "terminated", "truncated"), self._false)

    def _set_seed(self, seed: int | None) -> None:
        """Episodes begin anew at number 0 of this seed."""
        self._seed = torch.tensor(int(seed or 0), dtype=torch.int64, device=self.device)
        self._packed = None

    def _started(self) -> Packed:
        if self._packed is None:
            raise RuntimeError("the env was stepped before its first reset(); call env.reset()")
        return self._packed

    @property
    def _world(self) -> World:
        world: World = self._packing.unpack(self._started())
        return world

    @_world.setter
    def _world(self, world: World) -> None:
        self._packed = pack(world)

    @contextlib.contextmanager
    def other_episodes(self, seed: int) -> Iterator[None]:
        """Play the episodes of another seed, then go on here; what was compiled serves both."""
        kept = self._seed, self._packed
        self._set_seed(seed)
        try:
            yield
        finally:
            self._seed, self._packed = kept

    def episode_key(self) -> Tensor:
        """The random key of the episode every env is in, int64 (N,)."""
        return random.episode_key(self._seed, self._env_id, self._world.episode)

    def runtime_state(self) -> dict[str, Any]:
        """Everything a fresh env needs to go on from here, for a checkpoint."""
        return {"seed": self._seed, "world": list(self._started())}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """The inverse of runtime_state, for an env of the same options."""
        own = pack(self._opening(torch.zeros_like(self._env_id), self._seed))
        found = runtime["world"]
        if [rows.shape for rows in own] != [rows.shape for rows in found]:
            raise ValueError(
                "the checkpoint's env state does not fit this env; expected the num_envs and env options "
                f"it was saved with (num_envs = {found[-1].shape[-1]}); change num_envs or the env options"
            )
        self._seed = runtime["seed"].to(self.device)
        self._packed = tuple(rows.to(self.device) for rows in found)


def carry(handed_over: TensorDictBase, upcoming: TensorDict, opening: TensorDict) -> None:
    """What a policy hands to its next step goes along, and as zeros where an episode ended."""
    known = set(upcoming.keys(True, True))
    done = upcoming.get("done")
    for key in [key for key in handed_over.keys(True, True) if key not in known]:
        value = handed_over.get(key)
        ended = done.reshape(-1, *[1] * (value.ndim - 1))
        upcoming.set(key, value)
        opening.set(key, torch.where(ended, torch.zeros_like(value), value))
