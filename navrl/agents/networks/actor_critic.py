"""Policy and critic as TensorDict modules, for any network and any action distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.core.team import frames_of, in_group
from navrl.agents.core.value_scale import ValueScale
from navrl.agents.networks.distributions import ActionDistribution
from navrl.agents.networks.heads import Head
from navrl.agents.networks.layers import NetworkOptions
from navrl.agents.networks.memory import HIDDEN
from navrl.config.checks import require_choice
from navrl.envs.core.compiling import CompiledSample
from navrl.ranks.noise import by_shards

PRECISIONS = ("fp32", "bf16", "auto")


@dataclass(frozen=True, kw_only=True)
class ActorCriticOptions(NetworkOptions):
    """The options `agent.network` of PPO."""

    architecture: str
    rnn: str
    chunk_length: int
    precision: str


class Policy(TensorDictModuleBase):
    """Observation and mask to action and its log-probability; `version` counts updates.

    Its trunk is a Trunk, or another module with the same attributes. It acts for every agent of the group
    `group`, or for the env's only agent where that is None.
    """

    def __init__(
        self, *, trunk: Any, head: Head, group: str | None, masked: bool, compile_mode: str | bool
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.group, self.version = trunk, head, group, 0
        mask = ["action_mask"] if masked else []
        inputs = [*(("observation", leaf) for leaf in trunk.leaves), *mask]
        hidden = [HIDDEN] if trunk.memory.size else []
        self._columns, self._hidden = [*inputs, *hidden], in_group(group, *hidden)
        self._sample = CompiledSample(self._sample_eager, compile_mode)
        self.in_keys = in_group(group, *inputs)
        self.out_keys = in_group(group, "action", "action_log_prob", *hidden)
        self.out_keys += [("next", *_as_tuple(key)) for key in self._hidden]

    def with_agent_ids(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the frames as they are: this policy does not read which agent it acts for."""
        return frames

    def with_inputs(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout as it is: this policy reads only leaves of the env."""
        return rollout

    def get_dist(self, frames: TensorDictBase) -> ActionDistribution:
        """Return the action distribution of every row of one agent's frames."""
        return self.head.distribution(self.trunk(frames), frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take the deterministic action under ExplorationType.DETERMINISTIC.

        The hidden state after the step is written under "next". From there an env carries it to the next
        step, as zeros when an episode begins; so many envs, other envs and resumed runs share one policy.
        """
        frames = frames_of(tensordict, self.group)
        inputs = self._inputs(frames)
        columns = [inputs.get(key) for key in self._columns]
        if exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE):
            action, log_prob, *after = self._act(columns, deterministic=True)
        else:  # the path of a collector at every step, so all of it is one graph
            action, log_prob, *after = self._sample(*columns)
        frames.set("action", action)
        frames.set("action_log_prob", log_prob)
        for key, hidden in zip(self._hidden, after, strict=True):
            tensordict.set(("next", *_as_tuple(key)), hidden)
        return tensordict

    def distribution(
        self, tensordict: TensorDictBase, *, deterministic: bool
    ) -> ActionDistribution:
        """Return the distribution of the actions; write the hidden state after the step under "next"."""
        dist, *after = self._step(self._inputs(frames_of(tensordict, self.group)))
        for key, hidden in zip(self._hidden, after, strict=True):
            tensordict.set(("next", *_as_tuple(key)), hidden)
        return dist

    def _inputs(self, frames: TensorDictBase) -> TensorDictBase:
        """Return the frames with agent ids and a hidden state, which is zeros at first."""
        if self._hidden and HIDDEN not in frames:
            frames.set(
                HIDDEN, torch.zeros(*frames.shape, self.trunk.memory.size, device=frames.device)
            )
        return self.with_agent_ids(frames)

    def _sample_eager(self, *columns: Tensor) -> tuple[Tensor, ...]:
        return self._act(columns, deterministic=False)

    def _act(self, columns: Sequence[Tensor], *, deterministic: bool) -> tuple[Tensor, ...]:
        """Return action, log-probability and, with a memory, the hidden state after the step."""
        dist, *after = self._step(TensorDict(dict(zip(self._columns, columns, strict=True))))
        action = dist.deterministic_sample if deterministic else dist.sample()
        return action, dist.log_prob(action), *after

    def _step(self, frames: TensorDictBase) -> tuple[Any, ...]:
        """Return the distribution of single steps and, with a memory, the hidden state after them."""
        if not self._hidden:
            return (self.head.distribution(by_shards(self.trunk, frames), frames),)
        outputs, hidden = by_shards(self.trunk.step, frames)
        return self.head.distribution(outputs, frames), hidden


def _as_tuple(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


class Critic(TensorDictModuleBase):
    """Observation of one agent to its state value, in the units of `scale`."""

    def __init__(self, *, trunk: Any, scale: ValueScale) -> None:
        super().__init__()
        self.trunk, self.scale = trunk, scale
        self.in_keys = [("observation", leaf) for leaf in trunk.leaves]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add state_value (..., 1)."""
        tensordict.set("state_value", self.trunk(tensordict))
        return tensordict

    def with_inputs(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout as it is: this critic reads only observations."""
        return rollout

    def update_normalisers(self, frames: TensorDictBase) -> None:
        """Do nothing: this critic shares the normalisers of the policy."""


def resolve_precision(precision: str, device: torch.device) -> str:
    """Return fp32 or bf16; `auto` is bf16 where the hardware multiplies it natively."""
    require_choice("agent.network.precision", precision, PRECISIONS)
    if precision != "auto":
        return precision
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return "bf16" if native else "fp32"
