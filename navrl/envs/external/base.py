"""Base class of worlds from elsewhere: their frames under our keys, sums per episode, an optional time limit.

A subclass supplies two functions, and calls `declare` with its specs:
    advance(tensordict) -> Moved          one step of all envs
    begin(mask) -> {leaf: tensor}         new episodes in finished envs, or in all; what they decide on next
Leaves are named with slashes and have the env axis first: "observation/features" (N, F) of a single agent,
"agents/observation/features" (N, A, F) and "state" (N, S) of a team.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.nn import functional
from torchrl.data import Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from navrl.config.checks import ConfigError, require_choice, require_whole
from navrl.envs.core import random, specs
from navrl.envs.core.env import carry

_REWARDS = ("reward", "agents/reward")  # of a step, not of a frame to decide on
FEATURES = "features"  # the leaf of an observation that has no names of its own


@contextlib.contextmanager
def needs(package: str, sentence: str) -> Iterator[None]:
    """Turn the failed import of a package into a sentence: it is missing, or what it needs itself is."""
    try:
        yield
    except ImportError as error:
        what = f"whose import fails ({error})"
        if isinstance(error, ModuleNotFoundError):
            its_own = "" if error.name == package else f"which needs {error.name}, "
            what = f"{its_own}which is not installed"
        raise ConfigError(f"{sentence}, {what}; pip install 'navrl[interop]'") from error


@contextlib.contextmanager
def making(option: str, what: str | None, options: Mapping[str, Any]) -> Iterator[None]:
    """Name the world, which `option` chose, and its own options in errors of its constructor."""
    try:
        yield
    except Exception as error:
        raise ConfigError(
            f"{option} = {what} with env.options = {dict(options)} cannot be made: {type(error).__name__}: "
            f"{error}; change env.options or {option}"
        ) from error


def leaf_name(path: Sequence[Any]) -> str:
    """Return the name of a part of an observation; it names layers as well, and NAME_mask would be flags."""
    name = re.sub(r"\W", "_", "_".join(map(str, path))) or FEATURES
    return f"{name}_" if name.endswith("_mask") or hasattr(nn.ModuleDict(), name) else name


class ChoiceColumns(NamedTuple):
    """Columns of discrete values: how many each has, the smallest, and whether the world has them one-hot."""

    sizes: list[int]
    start: int | np.ndarray = 0  # one for all, or (columns,)
    one_hot: bool = False


def vectors(rows: Tensor, choices: ChoiceColumns | None) -> Tensor:
    """Return a part (..., columns) of an observation as numbers, choices as one-hot vectors."""
    if choices is None or choices.one_hot:
        return rows.float()
    return one_hot(rows.long() - torch.as_tensor(choices.start), choices.sizes).float()


def one_hot(columns: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return whole numbers (..., columns) as one-hot vectors side by side."""
    pairs = zip(columns.unbind(-1), sizes, strict=True)
    return torch.cat([functional.one_hot(column, size) for column, size in pairs], -1)


def require_own_names(names: Sequence[str], change: str) -> None:
    """Raise ConfigError unless the parts of an observation have a name each."""
    if len(set(names)) < len(names) or not names:
        raise ConfigError(
            f"the world's observation has the parts {names}; expected one or more, each with a name of its "
            f"own; {change}"
        )


class ExternalOptions(TypedDict):
    """The options that every world from elsewhere has."""

    name: str  # names the run directory
    headline: Mapping[str, str]  # console columns, {label: metric}
    objective: str  # the statistic that a run is judged by
    horizon: int | None  # steps after which an episode is cut; None: the world cuts it itself
    num_envs: int
    device: torch.device | str
    seed: int
    first_env_id: NotRequired[int]  # of this process among all that share a seed


class Moved(NamedTuple):
    """One step of a world: the leaves after it, and the team's reward and ends, (N,) each."""

    leaves: dict[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    counted: Tensor | None = (
        None  # bool (N,), False where the step only began an episode; None: all count
    )


class ExternalEnv(EnvBase):
    """N simulations of somebody else's world; see the module docstring for the hooks."""

    scripted_group = None  # nothing but a policy can act
    statistic_names: tuple[str, ...] = ()
    episode_keys = ("return", "length")
    rate_names: tuple[str, ...] = ()
    share_names: tuple[str, ...] = ()
    counted_when: Mapping[str, str] = MappingProxyType({})  # statistics are means over all episodes
    curriculum_advice = ""
    compile_mode = "off"  # its step is not ours to compile
    decision_s: float | None = None  # such a world does not say
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def __init__(self, **options: Unpack[ExternalOptions]) -> None:
        require_choice("env.objective", options["objective"], self.episode_keys)
        require_whole("num_envs", options["num_envs"], 1)
        self._horizon = options["horizon"]
        if self._horizon is not None:
            require_whole("env.horizon", self._horizon, 1)
        super().__init__(device=torch.device(options["device"]), batch_size=[options["num_envs"]])
        self.is_closed = False  # a collector that shuts down closes an open env only
        self.name, self.headline = options["name"], dict(options["headline"])
        self.objective = options["objective"]
        self._first_env_id = options.get("first_env_id", 0)
        self._next_seed: int | None = None  # of the next reset of all simulations
        ExternalEnv._set_seed(
            self, options["seed"]
        )  # not one that needs a world, which comes later
        self._totals = torch.zeros(*self.batch_size, 2, device=self.device)  # return, length

    # ---- hooks -------------------------------------------------------------------------------

    def advance(self, tensordict: TensorDictBase) -> Moved:
        """Return the outcome of one step with the action in the TensorDict."""
        raise TypeError(f"{type(self).__name__} lacks advance(tensordict) -> Moved")

    def begin(self, mask: Tensor | None) -> dict[str, Tensor]:
        """Begin new episodes where the mask (N,) is true, or everywhere; return the leaves of all envs."""
        raise TypeError(f"{type(self).__name__} lacks begin(mask) -> leaves")

    def declare(
        self, observation: Composite, action: TensorSpec, *, rewarded_agents: int = 0
    ) -> None:
        """Publish the specs of the observation, the action and the reward."""
        observation["episode"] = Unbounded((*self.batch_size, 2), device=self.device)
        self.observation_spec, self.action_spec = observation, action
        self.reward_spec = specs.reward_spec(self.batch_size, rewarded_agents, self.device)
        self.full_done_spec = specs.done_spec(self.batch_size, self.device)

    def _set_seed(self, seed: int | None) -> None:
        """Play the episodes of this seed from the next reset of all simulations on.

        Simulation i gets the next seed plus i, so that env i is the same one in any batch.
        """
        self._next_seed = random.plain_seed(seed) + self._first_env_id

    # ---- the step ----------------------------------------------------------------------------

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Make one step and restart finished envs."""
        leaves = self._stepped(tensordict)
        upcoming, done = self._tensordict(leaves), leaves["done"].squeeze(-1)
        # The world runs on the host, so that reading a flag there costs nothing.
        begun = self.begin(done) if bool(done.any()) else leaves
        opening = self._opened(begun, done)
        carried = tensordict.pop("next", None)
        if carried is not None:
            carry(carried, upcoming, opening)
        return tensordict.set("next", upcoming), opening

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._tensordict(self._stepped(tensordict))

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        mask = None if mask is None else mask.reshape(self.batch_size)
        return self._opened(self.begin(mask), mask)

    def _stepped(self, tensordict: TensorDictBase) -> dict[str, Tensor]:
        """Return every leaf of "next" after one step."""
        moved = self.advance(tensordict)
        counted = torch.ones_like(moved.reward) if moved.counted is None else moved.counted.float()
        self._totals = self._totals + torch.stack([moved.reward * counted, counted], -1)
        terminated, truncated = moved.terminated, moved.truncated
        if self._horizon is not None:
            truncated = truncated | (self._totals[:, 1] >= self._horizon)
        truncated = truncated & ~terminated
        rows = {
            "reward": moved.reward,
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
        }
        return {
            **moved.leaves,
            **{name: row.unsqueeze(-1) for name, row in rows.items()},
            "episode": self._totals,
        }

    def _opened(self, leaves: dict[str, Tensor], begun: Tensor | None) -> TensorDict:
        """Return the frame to decide on next; where an episode began, or everywhere, its sums are zero."""
        ones = torch.ones(self.batch_size, dtype=torch.bool, device=self.device)
        begun = ones if begun is None else begun
        self._totals = torch.where(begun.unsqueeze(-1), 0.0, self._totals)
        never = torch.zeros(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        flags = {name: never.clone() for name in ("done", "terminated", "truncated")}
        seen = {name: leaf for name, leaf in leaves.items() if name not in _REWARDS}
        return self._tensordict({**seen, **flags, "episode": self._totals})

    def _tensordict(self, leaves: dict[str, Tensor]) -> TensorDict:
        """Nest leaves that are named with slashes; every group of agents has an axis for them."""
        found = TensorDict({}, batch_size=self.batch_size, device=self.device)
        for name, leaf in leaves.items():
            found.set(tuple(name.split("/")), leaf)
        if "agents" in found:
            agents = found.get("agents")
            agents.batch_size = self.observation_spec["agents"].shape
            agents.get("observation").batch_size = agents.batch_size
        return found

    # ---- what such a world cannot do ---------------------------------------------------------

    def runtime_state(self) -> dict[str, Any]:
        """Return nothing: the episodes of such a world cannot be saved, so a resumed run begins new ones."""
        return {}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Do nothing, because nothing was saved."""
