"""Protocols of the parts that navrl is made of: implement one of them to add a part of your own.

The training loop reads exactly the attributes written down here. Implementations need not inherit from a
protocol; mypy compares them at the end of navrl/run/build.py. An added part is a class that a package exports
(see docs/extending.md) and that a YAML file in conf/ names in `_target_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

Note = Callable[[str], None]  # prints a sentence for the user
State = dict[str, Any]  # plain data and tensors, as a checkpoint stores them


class Policy(Protocol):
    """A decision maker: scripted, random or learned."""

    def __call__(self, tensordict: TensorDictBase, /) -> TensorDictBase:
        """Write the action of every env into the TensorDict and return it."""


class LearnedPolicy(Policy, Protocol):
    """The policy of an agent, a TensorDictModule with weights."""

    version: int  # number of updates so far; rollouts carry it as "policy_version"

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the weights."""

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> object:
        """Restore the weights."""

    def requires_grad_(self, requires_grad: bool = True, /) -> Self:
        """Enable or disable gradients of the weights."""


class Env(Protocol):
    """A batch of N simulations, a TorchRL EnvBase; navrl.envs.core.env.BatchedEnv implements most of it."""

    name: str  # conf/env option; names the run directory
    headline: Mapping[str, str]  # console column: metric
    objective: str  # statistic that `best` and sweeps compare; more is better
    episode_keys: tuple[str, ...]  # columns of the "episode" observation
    statistic_names: tuple[str, ...]  # those of them that the env itself computes
    rate_names: tuple[str, ...]  # statistics that are 0 or 1, so that Wilson's interval applies
    share_names: tuple[str, ...]  # further statistics within [0, 1], and so are their intervals
    counted_when: Mapping[str, str]  # statistic: the rate whose episodes alone it is averaged over
    scripted_group: str | None  # conf group whose options can act in place of a policy
    compile_mode: str | bool  # auto | on | off
    device: torch.device
    batch_size: torch.Size
    action_key: Any  # nested key of the action
    observation_spec: Any  # torchrl Composite
    action_spec: Any  # torchrl TensorSpec

    @property
    def decision_s(self) -> float | None:
        """Return the time between two decisions, None where it has no meaning."""

    @property
    def column_names(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of leaves and of "action" where they are known, as "speed [400 m/s]"."""

    @property
    def curriculum_advice(self) -> str:
        """Return a warning about training here without a curriculum, or nothing."""

    def reset(self) -> TensorDictBase:
        """Begin an episode in every simulation."""

    def step(self, tensordict: TensorDictBase, /) -> TensorDictBase:
        """Advance by one decision without starting new episodes."""

    def step_and_maybe_reset(
        self, tensordict: TensorDictBase, /
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Advance by one decision; return the transition, and the frame to decide on next."""

    def set_seed(self, seed: int, /) -> int | None:
        """Begin the episodes of another seed."""

    def other_episodes(self, seed: int, /) -> AbstractContextManager[None]:
        """Play the episodes of another seed inside the context, then continue where this env was."""

    def runtime_state(self) -> State:
        """Return all that a fresh env needs to continue bit for bit."""

    def load_runtime_state(self, runtime: State, /) -> None:
        """Restore what runtime_state returned."""

    def close(self) -> None:
        """End what the simulations hold, such as processes."""


class ScriptedEnv(Env, Protocol):
    """An env in which a scripted pilot or planner may act in place of the learner."""

    def pilot_action(self, pilot: Any, memory: Any, /) -> tuple[Tensor, Any]:
        """Return the script's action and its memory; memory None begins an episode."""


class LessonEnv(Env, Protocol):
    """An env whose scenarios, opponents and reward a curriculum of lessons may weigh."""

    opponent: Any

    @property
    def lesson_names(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names that set_lesson weighs, by its arguments."""

    def set_lesson(
        self,
        *,
        scenarios: Mapping[str, float],
        opponents: Mapping[str, float],
        reward: Mapping[str, float],
    ) -> None:
        """Apply new mixtures from the next episode of each env on, and new reward weights at once."""


class StagedEnv(Env, Protocol):
    """An env whose worlds a curriculum of stages may make harder."""

    def check_difficulty(self, prefix: str, difficulty: Any, /) -> None:
        """Raise if the worlds have no room for this difficulty."""

    def set_stages(self, stages: list[Any], shares: Mapping[int, float], /) -> None:
        """Build the following worlds from these stages, in these shares."""

    def start_over(self) -> None:
        """Begin new episodes in worlds of the current stages."""


class Agent(Protocol):
    """A learning algorithm: a policy and everything that improves it."""

    name: str  # conf/agent option; names the run directory
    precision: str  # fp32 or bf16, as the run's first lines show it
    headline: Mapping[str, str]  # console column: metric

    @property
    def policy(self) -> LearnedPolicy:
        """Return the policy that collects."""

    @property
    def critic(self) -> nn.Module:
        """Return the network that estimates returns."""

    @property
    def skipped_in_a_row(self) -> int:
        """Return how many of the latest iterations had a gradient that was not finite; none are saved."""

    def update(self, rollout: TensorDictBase, /) -> dict[str, float]:
        """Make every gradient step of one iteration on (N, T) frames; return metrics by name."""

    def allow_lag(self, correction: Any = None, /) -> None:
        """Prepare for rollouts of older versions, or raise if they cannot be learned from.

        Without a correction (navrl.agents.Correction) they are of the version before the newest.
        """

    def check_rollout_size(self, num_envs: int, rollout_steps: int, /) -> None:
        """Raise if rollouts of this size do not split into the configured minibatches."""

    def state_dict(self) -> State:
        """Return everything that learning changes; "policy" and "critic" hold their weights."""

    def load_state_dict(self, state: State, /) -> None:
        """Restore what state_dict returned."""


class Collector(Protocol):
    """An iterator over rollouts of an env under a policy."""

    lag: int  # how many versions the collecting policy may be older than the learner's

    def __iter__(self) -> Iterator[TensorDictBase]:
        """Yield rollouts of (N, T) frames, each of one policy version."""

    def ahead(self) -> AbstractContextManager[None]:
        """Collect the next rollout while the context is open, where this collector can."""

    def metrics(self) -> dict[str, float]:
        """Return the costs of collecting since the last call, by metric name."""

    def runtime_state(self) -> State:
        """Return all that a fresh collector needs to continue bit for bit."""

    def load_runtime_state(self, runtime: State, /) -> None:
        """Restore what runtime_state returned."""

    def shutdown(self) -> None:
        """Stop threads and close the env."""


class Curriculum(Protocol):
    """A schedule that changes what is trained on while the run goes on."""

    @property
    def headline(self) -> Mapping[str, str]:
        """Return console columns: name to metric."""

    @property
    def words(self) -> Mapping[str, Sequence[str]]:
        """Return names for the values 1, 2, ... of a metric."""

    @property
    def summary(self) -> str:
        """Return a line for the start of the run, or nothing."""

    stage: int  # counts from 0; `best` compares checkpoints of the highest stage only

    def after(
        self, iteration: int, frames: int, rollout: TensorDictBase, note: Note, /
    ) -> dict[str, float]:
        """Count what has ended, move to another stage if due; return metrics by name."""

    def state_dict(self) -> State:
        """Return what the curriculum has counted."""

    def load_state_dict(self, state: State, /) -> None:
        """Restore what state_dict returned."""


class Saver(Protocol):
    """A writer of checkpoints, used as a context manager."""

    on_error: str  # stop | continue, when a checkpoint cannot be written

    @property
    def saved_frames(self) -> int | None:
        """Return the frames of the newest checkpoint that is intact and durable."""

    def due(self, iteration: int, /) -> bool:
        """Return whether to save after this iteration; the first one has number 1."""

    def save(
        self, state: Mapping[str, Any], /, *, frames: int, score: float | None, stage: int
    ) -> object:
        """Save the state, or copy it and save in the background; raise OSError if an earlier save failed."""

    def metrics(self) -> dict[str, float]:
        """Return the costs of saving since the last call, by metric name."""

    def flush(self) -> None:
        """Wait until every save is durable; raise OSError if one failed."""

    def __enter__(self) -> Self:
        """Open the saver."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        """Finish what was begun and close."""


class RolloutWriter(Protocol):
    """A writer of collected rollouts."""

    def after(self, iteration: int, rollout: TensorDictBase, note: Note, /) -> None:
        """Save the rollout of this iteration if it is due."""


class Logger(Protocol):
    """A destination of metrics; an exception in it never ends a run."""

    def log(self, metrics: Mapping[str, float], /, *, iteration: int, frames: int) -> None:
        """Record the metrics of one iteration at this number of frames."""

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int, /) -> None:
        """Record metrics of an earlier iteration, such as an asynchronous evaluation."""

    def summary(self, metrics: Mapping[str, float], /) -> None:
        """Record the numbers that judge the whole run."""

    wants: frozenset[str]  # kinds of files for `attach`: replay, picture, latest, best

    def attach(self, kind: str, path: Path, /, *, frames: int) -> None:
        """Show or keep a file about the run, of which so many frames are behind it."""

    def truncate_after(self, frames: int, /) -> None:
        """Remove what was logged beyond these frames, because the run resumes from there."""

    def state_dict(self) -> State:
        """Return plain JSON values with which the logger continues after a resume."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Restore what state_dict returned."""

    def close(self) -> None:
        """Flush and close; harmless when called twice."""


class Opponent(Protocol):
    """A scripted or frozen pilot of air combat: pure functions over the simulator's state.

    Its memory is a tuple of (N,) tensors that begins anew with every episode.
    """

    compilable: bool  # False: holds networks, so that it acts outside of the compiled step

    def prepare(self, params: Any, device: torch.device | str, /) -> None:
        """Build or move the tensors that it holds; called once before the first episode."""

    def initial(self, key: Tensor, /) -> tuple[Tensor, ...]:
        """Return the memory at the start of the episodes with these random keys."""

    def act(
        self, params: Any, state: Any, me: int, memory: tuple[Tensor, ...], /
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Return the command of aircraft `me`, and the memory after it."""

    def tag(self, memory: tuple[Tensor, ...], /) -> Tensor | int:
        """Return a number (N,) of the pilot that acts, where one object stands for several; else 0."""


class Planner(Protocol):
    """A planner of navigation: a pure function from perception to a commanded velocity."""

    def prepare(self, lidar: Any, /) -> None:
        """Read the directions of the lidar's beams; called once before the first episode."""

    def initial(self, count: int, device: torch.device | str, /) -> tuple[Tensor, ...]:
        """Return the memory at the start of `count` episodes."""

    def act(
        self, perception: Any, memory: tuple[Tensor, ...], /
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the commanded velocity (3, N) in m/s, and the memory after it."""
