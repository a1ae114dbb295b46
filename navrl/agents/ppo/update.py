"""The gradient steps of PPO: minibatches, loss, gradients, step."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType
from torchrl.objectives import ClipPPOLoss

from navrl.agents.core.gradients import Gradients
from navrl.agents.core.objective import moments, value_error
from navrl.agents.core.optimizer import Optimizer
from navrl.agents.core.team import ALIVE
from navrl.config.checks import ConfigError, require, require_number, require_whole
from navrl.envs.core.compiling import CompiledGradients
from navrl.ranks import Ranks

LOSS_METRICS = (
    *("loss/policy", "loss/critic"),
    *("policy/entropy", "policy/kl", "policy/clip_fraction"),
)
STEP_METRICS = (
    *("loss/skipped_steps", "policy/kl_stopped_steps", "loss/grad_norm"),
    *LOSS_METRICS,
)
_STOCK_METRICS = ("loss_objective", "loss_critic", "entropy", "kl_approx", "clip_fraction")
_KL = LOSS_METRICS.index("policy/kl")
_LEAST_DEVIATION = 1e-6  # of advantages, as in TorchRL
_MOST_SIZES = 8  # of minibatches: each is a graph of its own, and torch.compile keeps no more


class LossOptions(NamedTuple):
    """The group agent.loss."""

    clip_epsilon: float
    policy_coef: float
    entropy_coef: float
    critic_coef: float
    value_clip: float | None
    huber_delta: float | None

    def check(self) -> None:
        """Raise about the first option without meaning."""
        require_number("agent.loss.clip_epsilon", self.clip_epsilon, least=0.0, most=1.0)
        for name in ("value_clip", "huber_delta"):
            value = getattr(self, name)
            if value is not None:
                require_number(f"agent.loss.{name}", value, above=0.0)


class Minibatches:
    """Random rows for every gradient step of an iteration; their number may change during the run."""

    def __init__(
        self,
        *,
        num_minibatches: int | Sequence[int],
        num_epochs: int,
        accumulate: int,
        num_iterations: int,
    ) -> None:
        self._numbers = (
            (num_minibatches,) if isinstance(num_minibatches, int) else tuple(num_minibatches)
        )
        self.num_epochs, self.accumulate, self.shards = num_epochs, accumulate, 1
        self._num_iterations = max(num_iterations, 1)
        require_whole("agent.num_epochs", num_epochs, 1)
        require_whole("agent.accumulate", accumulate, 1)
        for number in self._numbers:
            require_whole("agent.num_minibatches", number, 1)
        require(
            0 < len(set(self._numbers)) <= _MOST_SIZES,
            "agent.num_minibatches",
            list(self._numbers),
            f"1 to {_MOST_SIZES} different numbers",
        )

    def check(self, num_frames: int, chunk_length: int = 1) -> None:
        """Raise about rollouts that do not split into equal parts of equal minibatches."""
        rows, product = num_frames // chunk_length, "num_envs x rollout_steps"
        if chunk_length > 1:
            product += " / agent.network.chunk_length"
        for number in self._numbers:
            if rows % number:
                raise ConfigError(
                    f"{product} = {rows} is not a multiple of num_minibatches = {number}; "
                    "change agent.num_minibatches"
                )
            has = f"a minibatch has {rows // number} {'frames' if chunk_length == 1 else 'chunks'}"
            if rows // number % self.accumulate:
                raise ConfigError(
                    f"{has}, not a multiple of accumulate = {self.accumulate}; change agent.accumulate"
                )
            if rows // number % (self.accumulate * self.shards):
                raise ConfigError(
                    f"{has}, not a multiple of shards x accumulate = {self.shards * self.accumulate}; "
                    "change shards, agent.num_minibatches or agent.accumulate"
                )

    def number(self, iteration: int) -> int:
        """Return how many minibatches this iteration has: each number has an equal share of the run."""
        stage = iteration * len(self._numbers) // self._num_iterations
        return self._numbers[min(stage, len(self._numbers) - 1)]

    def indices(
        self,
        num_rows: int,
        iteration: int,
        device: torch.device,
        generator: torch.Generator | None = None,
    ) -> Iterator[Tensor]:
        """Yield the rows of every minibatch, for num_epochs passes over all rows in random order."""
        size = num_rows // self.number(iteration)
        for _ in range(self.num_epochs):
            order = torch.randperm(num_rows, device=device, generator=generator)
            yield from torch.split(order, size)


class PPOLoss(ClipPPOLoss):
    """TorchRL's ClipPPOLoss with means over living agents and without reading the device.

    TorchRL reduces its three losses over the frames of loss_mask_key. Metrics, entropy and value loss are
    computed here: the stock metrics are means over all frames, and the other two read a flag on the host.
    Frames are (B,), or chunks of steps (B, L) for a policy with a memory. Advantages are used as they are.
    """

    # Nothing is sampled in here, but TorchRL sets a flag of the whole process: with its own choice, a policy
    # that collects in another thread meanwhile would take the most probable actions.
    deterministic_sampling_mode = ExplorationType.RANDOM

    def __init__(self, policy: Any, critic: Any, options: LossOptions) -> None:
        super().__init__(
            policy,
            critic,
            clip_epsilon=options.clip_epsilon,
            entropy_coeff=options.entropy_coef,
            critic_coeff=options.critic_coef,
            functional=False,  # ordinary modules: hooks, DDP and checkpoints work
            normalize_advantage=False,
            log_explained_variance=False,  # per minibatch; navrl logs it once per rollout
            device=next(policy.parameters()).device,
        )
        self.loss_mask_key, self._options = ALIVE, options

    def total(self, frames: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Return the loss of a minibatch and its LOSS_METRICS as a row."""
        frames = self.actor_network.trunk.with_shared_features(frames.copy())
        out, alive = self(frames), frames.get(ALIVE, None)
        if alive is not None:
            living = alive.sum().clamp_min(1)
            for name in _STOCK_METRICS[2:]:  # to which the dead contribute zeros
                out.set(name, out.get(name) * (alive.numel() / living))
        loss = self._options.policy_coef * out["loss_objective"] + out["loss_critic"]
        return loss + out["loss_entropy"], torch.stack([out[it].detach() for it in _STOCK_METRICS])

    def _log_weight(self, tensordict: TensorDictBase, adv_shape: torch.Size) -> tuple[Any, ...]:
        log_weight, dist, kl, correction = super()._log_weight(tensordict, adv_shape)
        alive = tensordict.get(ALIVE, None)
        if alive is None:
            return log_weight, dist, kl, correction
        # What the dead would do may be anything, but reaches neither a gradient nor a metric.
        living = _LivingEntropy(dist, alive.squeeze(-1))
        return torch.where(alive, log_weight, 0.0), living, torch.where(alive, kl, 0.0), correction

    def _get_entropy(self, dist: Any, adv_shape: torch.Size) -> Tensor:
        return dist.entropy().unsqueeze(-1)

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Tensor, None, None]:
        """Return the value error of every frame, times its weight."""
        old_value, target = (tensordict.get(key) for key in ("state_value", "value_target"))
        error = value_error(
            self.critic_network(tensordict).get("state_value"),
            target,
            old_value,
            value_clip=self._options.value_clip,
            huber_delta=self._options.huber_delta,
        )
        return self._options.critic_coef * error, None, None


class _LivingEntropy(NamedTuple):
    """The entropy of a distribution, zero for the dead: all that the loss reads of it after the ratio."""

    dist: Any
    alive: Tensor

    def entropy(self) -> Tensor:
        """Return the entropy of every frame."""
        return torch.where(self.alive, self.dist.entropy(), 0.0)


def standardized(advantage: Tensor, alive: Tensor | None, rows: Tensor | None = None) -> Tensor:
    """Return `rows`, by default all, minus the mean advantage of a minibatch, over its deviation.

    Only the living count.
    """
    rows = advantage if rows is None else rows
    if advantage.numel() == 1:
        return rows
    if alive is None:
        mean, deviation = advantage.mean(), advantage.std()
    else:
        mean, variance = moments(advantage, alive)
        deviation = variance.sqrt()
    return (rows - mean) / deviation.clamp_min(_LEAST_DEVIATION)


class MinibatchGradients:
    """Rows of a flat rollout to gradients: rows gathered, loss, backward pass and norm in one graph.

    Tensors go in and come out, so that the compiled call does not look through a TensorDict every time; and
    with the backward pass in the same graph nothing between the two has to be written to memory. A minibatch
    is computed at once, or in equal parts: so many for each shard, whose sums are added over all ranks.
    """

    def __init__(
        self,
        *,
        loss: PPOLoss,
        parameters: Sequence[Tensor],
        parts: int,
        compile_mode: str | bool,
    ) -> None:
        self.ranks = Ranks()
        self._loss, self._parameters, self._parts = loss, list(parameters), parts
        self._keys: tuple[tuple[str, ...], ...] = ()  # of the columns, in their order
        self._chunk: tuple[int, ...] = ()  # (L,) where rows are chunks of steps
        self._compiled = CompiledGradients(self._of_columns, compile_mode)
        self._compiled_part = CompiledGradients(self._of_part, compile_mode)

    def of(self, frames: TensorDictBase) -> Callable[[Tensor], Gradients]:
        """Return a function from rows (B,) of `frames` (frames,), or of chunks (chunks, L), to gradients."""
        leaves, self._chunk = frames.flatten_keys("/"), (*frames.shape[1:],)
        names = sorted(leaves.keys())
        self._keys = tuple(tuple(name.split("/")) for name in names)
        columns = [leaves.get(name) for name in names]
        if self._parts * self.ranks.shards > 1:
            return lambda index: self._in_parts(index, columns)
        return lambda index: Gradients(*self._compiled(index, *columns))

    def _in_parts(self, index: Tensor, columns: Sequence[Tensor]) -> Gradients:
        """Return the sum over all parts, of which this rank computes those of its shards."""
        shards = index.view(self.ranks.shards, self._parts, -1)
        sums = []
        for number in self.ranks.own_shards:
            first, *others = shards[number]
            total = self._compiled_part(index, first, *columns)
            for part in others:
                total += self._compiled_part(index, part, *columns)
            sums.append(total)
        sizes = [parameter.numel() for parameter in self._parameters]
        whole, metrics = torch.split(self.ranks.sum_shards(sums), [sum(sizes), len(LOSS_METRICS)])
        gradients = tuple(
            part.view_as(parameter)
            for part, parameter in zip(torch.split(whole, sizes), self._parameters, strict=True)
        )
        return Gradients(gradients, whole.square().sum().sqrt(), metrics)

    def loss(self, minibatch: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Return the loss of a whole minibatch and its metrics."""
        advantage, alive = minibatch.get("advantage"), minibatch.get(ALIVE, None)
        ready = minibatch.copy().set("advantage", standardized(advantage, alive))
        return self._loss.total(ready)

    def _of_columns(
        self, index: Tensor, *columns: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        loss, metrics = self.loss(self._rows(index, columns))
        gradients = torch.autograd.grad(loss, self._parameters)
        # Not get_total_norm: it would leave the graph, once for every parameter.
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        return gradients, norm, metrics

    def _of_part(self, whole: Tensor, index: Tensor, *columns: Tensor) -> Tensor:
        """Return what the rows `index` add to the gradients and metrics of the minibatch `whole`, as a row.

        Losses are means over the living, so a part counts by how many of them it has.
        """
        judged = {
            name: dict(zip(self._keys, columns, strict=True))[(name,)].index_select(0, whole)
            for name in ("advantage", ALIVE)
            if (name,) in self._keys
        }
        every, alive = judged["advantage"], judged.get(ALIVE)
        minibatch = self._rows(index, columns)
        own, living = minibatch.get("advantage"), minibatch.get(ALIVE, None)
        minibatch.set("advantage", standardized(every, alive, own))
        loss, metrics = self._loss.total(minibatch)
        share: Tensor | float = len(index) / len(whole)
        if alive is not None and living is not None:
            share = living.sum() / alive.sum().clamp_min(1)
        gradients = torch.autograd.grad(loss, self._parameters)
        return torch.cat([*(gradient.reshape(-1) for gradient in gradients), metrics]) * share

    def _rows(self, index: Tensor, columns: Sequence[Tensor]) -> TensorDict:
        minibatch = TensorDict({}, batch_size=[*index.shape, *self._chunk])
        for key, column in zip(self._keys, columns, strict=True):
            minibatch.set(key, column.index_select(0, index))
        return minibatch


class GradientSteps:
    """All gradient steps of an iteration."""

    def __init__(
        self,
        *,
        minibatches: Minibatches,
        gradients: MinibatchGradients,
        optimizer: Optimizer,
        max_kl: float | None,
    ) -> None:
        self.minibatches, self.gradients = minibatches, gradients
        self.optimizer, self.max_kl = optimizer, max_kl

    def take(
        self, frames: TensorDictBase, stopped: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Take the steps of an iteration unless `stopped`; return STEP_METRICS as a row."""
        rows: list[Tensor] = []
        indices = self.minibatches.indices(
            len(frames), self.optimizer.done, stopped.device, generator
        )
        for gradients, index in _plain_rows(frames, indices, self.gradients.of):
            stopped, row = self.step(gradients(index), stopped)
            rows.append(row)
        return _means(rows)

    def step(self, gradients: Gradients, stopped: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step, unless the KL limit was passed or the gradient is not finite."""
        if self.max_kl is not None:
            stopped = stopped | (gradients.metrics[_KL] > self.max_kl)
        broken = self.optimizer.step(gradients.of_parameters, gradients.norm, stopped)
        flags = torch.stack([broken.float(), stopped.float(), gradients.norm])
        return stopped, torch.cat([flags, gradients.metrics])


def _means(steps: list[Tensor]) -> Tensor:
    """Return counts of broken and stopped steps, and means of the rest over the steps that were taken."""
    rows = torch.stack(steps)
    taken = (1.0 - rows[:, 1]) * (1.0 - rows[:, 0])
    means = torch.where(taken.bool().unsqueeze(-1), rows, 0.0).sum(0) / taken.sum().clamp_min(1.0)
    return torch.cat([rows[:, :2].sum(0), means[2:]])


def _plain_rows(
    frames: TensorDictBase,
    indices: Iterator[Tensor],
    gradients: Callable[[TensorDictBase], Callable[[Tensor], Gradients]],
) -> Iterator[tuple[Callable[[Tensor], Gradients], Tensor]]:
    """Yield gradients(rows) and an index into these rows, for every index (B,) into `frames` (rows,).

    Plain frames are gathered by the index itself. Of leaves that are kept packed (which say how many
    `rows_at_once` may be made) the rows of the next few minibatches are made together, into one buffer.
    """
    at_once = _rows_at_once(frames)
    if at_once is None:
        whole = gradients(frames)
        yield from ((whole, index) for index in indices)
        return
    rows: TensorDictBase | None = None
    for index in indices:
        group = [index, *itertools.islice(indices, max(1, at_once // len(index)) - 1)]
        together = torch.cat(group)
        rows = _gathered(frames, together, rows)
        some = gradients(rows)
        places = torch.arange(len(together), device=index.device)
        yield from ((some, place) for place in torch.split(places, len(index)))


def _rows_at_once(frames: TensorDictBase) -> int | None:
    leaves = frames.values(include_nested=True, leaves_only=True)
    limits = (getattr(leaf, "rows_at_once", None) for leaf in leaves)
    return min((limit for limit in limits if limit is not None), default=None)


def _gathered(
    frames: TensorDictBase, index: Tensor, buffer: TensorDictBase | None
) -> TensorDictBase:
    """Return these rows of every leaf; in the buffer, if it has as many."""
    if buffer is None or len(index) != len(buffer):
        return frames.apply(lambda leaf: leaf.index_select(0, index), batch_size=index.shape)
    into: TensorDictBase = frames.apply(
        lambda leaf, out: torch.index_select(leaf, 0, index, out=out),
        buffer,
        batch_size=index.shape,
    )
    return into
