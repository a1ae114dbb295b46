"""The base class of every batched simulation: masked resets, honest flags, statistics, one fast path.

A subclass supplies pure functions over NamedTuples of tensors. In all of them the env axis is the last one:

    action                                what an agent may do: specs.Choices(3), specs.Bounds(-1.0, 1.0)
    initial(key) -> state                 the first state of the episodes with these keys
    advance(state, action) -> (state, events)     one decision of all agents; an action is (columns, N)
    observe(state) -> {leaf: tensor}      the observation, e.g. "observation/ego" (features, N)

and, where the default does not do,

    judge(state) -> (terminated, truncated)       bool (N,); by default only `horizon` ends an episode
    statistics(state) -> rows             figures about an episode, logged at its end, (N,) each; none
    score(transition) -> (reward, parts)  reward (N,) and its parts; the configured terms
    own_rewards(transition) -> (A, N)     the reward of every agent, with has_own_rewards; the team's
    outside() -> given                    decisions that cannot be compiled, for advance_given; none
    draw(state) -> shapes                 the picture of `navrl replay` (shapes.py); none

The leaves of several agents are in the group "agents", as "agents/observation/ego" (agents, features, N);
their action is (agents, columns, N). Constants of the simulator are `self.params`, from the option `sim`.
`navrl/envs/alice_and_bob` is the example to imitate; `navrl new env` writes the shortest one.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils import _pytree as pytree
from torchrl.envs import EnvBase

from navrl.config.checks import require_whole
from navrl.envs.core import random, specs
from navrl.envs.core.compiling import Compiled
from navrl.envs.core.packing import Packed, Packing, pack
from navrl.envs.core.rewards import Transition, WeightedReward, require_reads
from navrl.envs.core.shapes import Shape
from navrl.envs.core.validation import check_columns, check_opening, check_options, lacks
from navrl.storage.schema import Having, check, numbers

_RETURN = "return"  # the statistic that every env has


class EnvOptions(TypedDict):
    """The options that every env has; a subclass accepts them as `**options` and passes them on."""

    name: str  # names the run directory
    headline: NotRequired[Mapping[str, str]]  # console columns, {label: metric}; else all
    objective: NotRequired[str]  # the statistic that a run is judged by, else the return
    horizon: NotRequired[int | None]  # steps after which an episode is cut
    compile_mode: str | bool  # auto | on | off
    num_envs: int
    device: torch.device | str
    seed: int
    first_env_id: NotRequired[int]  # of this process among all that share a seed


_OUTCOME = (
    "reward",
    "agents/reward",
    "terminated",
    "truncated",
    "done",
)  # of a step, not of a state


class World(NamedTuple):
    """The memory of an env between two steps."""

    state: Any  # the subclass's NamedTuple
    episode: Tensor  # int64 (N,), number of the episode of this env id
    length: Tensor  # float32 (N,), steps so far
    totals: Tensor  # float32 (1 + parts, N), return and reward parts so far


class BatchedEnv(EnvBase):
    """N simulations that step together; see the module docstring for the hooks."""

    action: specs.Action  # what an agent may do
    statistic_names: tuple[str, ...] = ()  # of what `statistics` returns
    rate_names: tuple[str, ...] = ()  # those of them that are 0 or 1
    ends_together = False  # whether all envs that began together end in the same step
    has_own_rewards = False  # whether own_rewards returns the reward of every agent
    share_names: tuple[str, ...] = ()  # further ones that are within [0, 1]
    scripted_group: str | None = None  # the group of options that can act in place of a policy
    # {statistic: rate}: the statistic is a mean over the episodes in which the rate is 1, else over all.
    counted_when: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        *,
        reward: WeightedReward,
        sim: Any = None,
        observation: Any = None,
        **options: Unpack[EnvOptions],
    ) -> None:
        require_whole("num_envs", options["num_envs"], 1)
        device, num_envs = torch.device(options["device"]), options["num_envs"]
        super().__init__(device=device, batch_size=[num_envs])
        self.name, self.compile_mode = options["name"], options["compile_mode"]
        self.objective = options.get("objective") or _RETURN
        self.headline = dict(options.get("headline") or self._all_columns())
        # The constants of the simulator, which may be able to check themselves.
        self.params = sim.checked() if hasattr(sim, "checked") else sim
        judged = type(self).judge is not BatchedEnv.judge
        check_options(self, reward, options.get("horizon"), judged=judged)
        self._observation, self._reward = observation, reward
        if observation is not None:
            require_reads(f"observation {type(observation).__name__}", type(observation), sim)
            observation.prepare(self.params, device)
        reward.prepare(self.params, device)
        parts = (f"reward_{name}" for name in reward.names)
        self.episode_keys = (_RETURN, "length", *self.statistic_names, *parts)
        check_columns(self)
        self._horizon = options.get("horizon")
        self._env_id = torch.arange(num_envs, device=device) + options.get("first_env_id", 0)
        self._false = torch.zeros(num_envs, 1, dtype=torch.bool, device=device)
        self._packed: Packed | None = None  # the current World
        # Where episodes end together most steps restart nothing; on a GPU asking would wait for it.
        self._restarts_apart = self.ends_together and device.type == "cpu"
        self._whole_step = Compiled(self._whole_step_eager, self.compile_mode)
        self._decision = Compiled(self._decision_eager, self.compile_mode)
        self._restart = Compiled(self._restart_eager, self.compile_mode)
        self._set_seed(options["seed"])
        self._declare(check_opening(self, self._seed))
        self._packing = Packing(self._opening(torch.zeros_like(self._env_id), self._seed))

    def _all_columns(self) -> dict[str, str]:
        """Return console columns of all statistics, rates as percentages, and the return."""
        shown = [name for name in self.statistic_names if not name.startswith("_")]
        percent = {name: f"{name}%" if name in self.rate_names else name for name in shown}
        return {percent.get(name, name): f"episode/{name}" for name in (*shown, _RETURN)}

    # ---- hooks -------------------------------------------------------------------------------

    def initial(self, key: Tensor) -> Any:
        """Return the first state of the episodes with these keys."""
        raise lacks(self, "initial(key) -> state")

    def advance(self, state: Any, action: Tensor) -> tuple[Any, Any]:
        """Return the state one decision later, and the events on the way."""
        raise lacks(self, "advance(state, action) -> (state, events)")

    def outside(self) -> Any:
        """Return the decisions that are made before the compiled step, because they cannot be compiled."""
        return None

    def advance_given(self, state: Any, action: Tensor, given: Any) -> tuple[Any, Any]:
        """Return what advance does, given the decisions that were made outside."""
        return self.advance(state, action)

    def observe(self, state: Any) -> dict[str, Tensor]:
        """Return every leaf of the observation spec but "episode", named with slashes, env axis last."""
        raise lacks(self, "observe(state) -> leaves")

    def judge(self, state: Any) -> tuple[Tensor, Tensor]:
        """Return terminated and truncated, bool (N,), beside the option `horizon`."""
        any_leaf = pytree.tree_leaves(state)[0]
        never = any_leaf.new_zeros(any_leaf.shape[-1:], dtype=torch.bool)
        return never, never

    def score(self, transition: Transition) -> tuple[Tensor, list[Tensor]]:
        """Return the reward (N,) and its weighted parts: the configured terms."""
        return self._reward(transition)

    def own_rewards(self, transition: Transition) -> Tensor | None:
        """Return the reward of every agent (A, N) beside the team's, if agents have rewards of their own."""
        return None

    def statistics(self, state: Any) -> list[Tensor]:
        """Return the figures that are logged at the end of an episode, one (N,) per statistic name."""
        return []

    def draw(self, state: Any) -> Sequence[Shape]:
        """Return the picture of a state for the replay page; without one it shows curves alone."""
        return []

    # ---- the step ----------------------------------------------------------------------------

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Make one decision and restart finished envs; the fast path, without host synchronisation."""
        self._packed, ahead, root = self.decide(tensordict.get(self.action_key))
        upcoming = self._tensordict(ahead)
        opening = self._tensordict({**root, **self._never_done()})
        carried = tensordict.pop("next", None)
        if carried is not None:
            carry(carried, upcoming, opening)
        tensordict.set("next", upcoming)
        return tensordict, opening

    def decide(self, action: Tensor) -> tuple[Packed, dict[str, Tensor], dict[str, Tensor]]:
        """Return the world after a decision and any restarts, and the leaves before and after these."""
        packed = self._started()
        if not self._restarts_apart:
            return self._whole_step(packed, action, self.outside(), self._seed)
        packed, ahead = self._decision(packed, action, self.outside())
        if ahead["done"].any():
            return self._restart(packed, ahead, self._seed)
        return packed, ahead, {name: leaf for name, leaf in ahead.items() if name not in _OUTCOME}

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Make one decision without a restart; the slow path that TorchRL checks."""
        world, action = self._world, tensordict.get(self.action_key)
        after, events = self.advance_given(world.state, action.movedim(0, -1), self.outside())
        self._world, leaves = self._settle(world, after, events)
        return self._tensordict(leaves)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        """Begin the next episode of the masked envs, or of all."""
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if self._packed is None:
            world = self._opening(torch.zeros_like(self._env_id), self._seed)
        else:
            everyone = ~self._false.squeeze(-1)
            chosen = everyone if mask is None else mask.reshape(self._env_id.shape)
            world = self._restarted(self._world, chosen, self._seed)
        self._world = world
        # Copies, because the caller of a reset may write into its result.
        flags = {name: flag.clone() for name, flag in self._never_done().items()}
        return self._tensordict({**self._leaves(world), **flags})

    def _whole_step_eager(
        self, packed: Packed, action: Tensor, given: Any, seed: Tensor
    ) -> tuple[Packed, dict[str, Tensor], dict[str, Tensor]]:
        settled, ahead = self._decided(packed, action, given)
        return self._begun(settled, ahead, seed)

    def _decision_eager(
        self, packed: Packed, action: Tensor, given: Any
    ) -> tuple[Packed, dict[str, Tensor]]:
        settled, ahead = self._decided(packed, action, given)
        return pack(settled), ahead

    def _restart_eager(
        self, packed: Packed, ahead: dict[str, Tensor], seed: Tensor
    ) -> tuple[Packed, dict[str, Tensor], dict[str, Tensor]]:
        return self._begun(self._packing.unpack(packed), ahead, seed)

    def _decided(
        self, packed: Packed, action: Tensor, given: Any
    ) -> tuple[World, dict[str, Tensor]]:
        world: World = self._packing.unpack(packed)
        after, events = self.advance_given(world.state, action.movedim(0, -1), given)
        return self._settle(world, after, events)

    def _begun(
        self, settled: World, ahead: dict[str, Tensor], seed: Tensor
    ) -> tuple[Packed, dict[str, Tensor], dict[str, Tensor]]:
        restarted = self._restarted(settled, ahead["done"].squeeze(-1), seed)
        return pack(restarted), ahead, self._leaves(restarted)

    def _settle(self, world: World, after: Any, events: Any) -> tuple[World, dict[str, Tensor]]:
        """Judge and score the step; return the world before any restart, and the leaves of "next"."""
        terminated, truncated = self.judge(after)
        length = world.length + 1.0
        if self._horizon is not None:
            truncated = truncated | (length >= self._horizon)
        truncated = truncated & ~terminated
        transition = Transition(self.params, world.state, after, events, terminated, truncated)
        reward, parts = self.score(transition)
        settled = World(
            state=after,
            episode=world.episode,
            length=length,
            totals=world.totals + torch.stack([reward, *parts]),
        )
        flags = {"terminated": terminated, "truncated": truncated, "done": terminated | truncated}
        leaves = self._leaves(settled)
        leaves["reward"] = reward.unsqueeze(-1)
        own = self.own_rewards(transition)
        if own is not None:
            leaves["agents/reward"] = own.t().unsqueeze(-1)
        return settled, {**leaves, **{name: flag.unsqueeze(-1) for name, flag in flags.items()}}

    def _opening(self, episode: Tensor, seed: Tensor) -> World:
        key = random.episode_key(seed, self._env_id, episode)
        return World(
            state=self.initial(key),
            episode=episode,
            length=torch.zeros_like(key, dtype=torch.float32),
            totals=torch.zeros(1 + len(self._reward.names), key.shape[0], device=key.device),
        )

    def _restarted(self, world: World, mask: Tensor, seed: Tensor) -> World:
        """Return the world in which the masked envs have begun their next episode."""
        fresh = self._opening(world.episode + 1, seed)
        merge = lambda new, old: torch.where(mask, new, old)  # noqa: E731
        return pytree.tree_map(merge, fresh, world)

    def _leaves(self, world: World) -> dict[str, Tensor]:
        """Return observation, mask and episode statistics as TorchRL wants them: env axis first."""
        observed = self.observe(world.state)
        episode = [world.totals[0], world.length, *self.statistics(world.state), *world.totals[1:]]
        leaves = {name: leaf.movedim(-1, 0).contiguous() for name, leaf in observed.items()}
        leaves["episode"] = torch.stack(episode, dim=-1)
        return leaves

    # ---- TorchRL's side ----------------------------------------------------------------------

    def _declare(self, observed: Mapping[str, Tensor]) -> None:
        """Publish the specs of what was observed, of the action, the reward and the flags."""
        shape, device = self.batch_size, self.device
        leaves = {name: tuple(leaf.shape[:-1]) for name, leaf in observed.items()}
        leaves["episode"] = (len(self.episode_keys),)
        observation = specs.leaves_spec(leaves, shape, device)
        if "agents" in observation.keys():  # noqa: SIM118  (no iterator)
            group = observation["agents"].shape
            action = specs.team_action_spec(self.action.spec(group, device))
        else:
            group, action = shape, self.action.spec(shape, device)
        self.observation_spec, self.action_spec = observation, action
        rewarded = group[-1] if self.has_own_rewards else 0
        self.reward_spec = specs.reward_spec(shape, rewarded, device)
        self.full_done_spec = specs.done_spec(shape, device)

    def _tensordict(self, leaves: dict[str, Tensor]) -> TensorDict:
        """Nest leaves named "group/leaf"; unchecked, because the step made the shapes."""
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
        """Return the batch size of a group: a group of agents has an axis for them, others have not."""
        spec = self.observation_spec
        return spec[key].shape if key in spec.keys() else batch_size  # noqa: SIM118  (no iterator)

    def _never_done(self) -> dict[str, Tensor]:
        return dict.fromkeys(("done", "terminated", "truncated"), self._false)

    def _set_seed(self, seed: int | None) -> None:
        """Begin again with episode number 0 of this seed."""
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
        """Play the episodes of another seed, then continue; compiled graphs serve both."""
        kept = self._seed, self._packed
        self._set_seed(seed)
        try:
            yield
        finally:
            self._seed, self._packed = kept

    @property
    def decision_s(self) -> float | None:
        """Return the time between two decisions, None where it has no meaning."""
        return getattr(self.params, "step_s", None)

    @property
    def column_names(self) -> dict[str, Sequence[str]]:
        """Return the columns of leaves and of "action" where they are known, as "speed [400 m/s]"."""
        names = getattr(self._observation, "names", {})
        return {**names, "action": getattr(self.action, "names", ())}

    @property
    def curriculum_advice(self) -> str:
        """Return a warning about training here without a curriculum, or nothing."""
        return ""

    @property
    def state(self) -> Any:
        """The simulator's state, for recordings and tests."""
        return self._world.state

    def episode_key(self) -> Tensor:
        """Return the random key of the current episode of every env, int64 (N,)."""
        return random.episode_key(self._seed, self._env_id, self._world.episode)

    def runtime_state(self) -> dict[str, Any]:
        """Return everything that a new env needs to continue from here, for a checkpoint."""
        return {"seed": self._seed, "world": list(self._started())}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore what runtime_state returned, in an env of the same options."""
        own = pack(self._opening(torch.zeros_like(self._env_id), self._seed))
        rows = [numbers(each.dtype, [None, None]) for each in own]
        check(runtime, Having({"seed": self._seed, "world": rows}), "env")
        found = runtime["world"]
        if [rows.shape for rows in own] != [rows.shape for rows in found]:
            raise ValueError(
                "the checkpoint's env state does not fit this env; expected the num_envs and env options "
                f"it was saved with (num_envs = {found[-1].shape[-1]}); change num_envs or the env options"
            )
        check(found, list(own), "env/world")
        packed = tuple(rows.to(self.device) for rows in found)
        self.check_state(self._packing.unpack(packed).state)
        self._seed, self._packed = runtime["seed"].to(self.device), packed

    def check_state(self, state: Any) -> None:
        """Raise CheckpointMismatch about indices in a loaded state that would lead nowhere."""


def carry(carried: TensorDictBase, upcoming: TensorDict, opening: TensorDict) -> None:
    """Pass on what a policy hands to its next step, such as recurrent memory; zeros at an episode's end."""
    known = set(upcoming.keys(True, True))
    done = upcoming.get("done")
    for key in [key for key in carried.keys(True, True) if key not in known]:
        value = carried.get(key)
        ended = done.reshape(-1, *[1] * (value.ndim - 1))
        upcoming.set(key, value)
        opening.set(key, torch.where(ended, torch.zeros_like(value), value))
