"""Ranks: the processes of one run, each of which steps its own envs, while all learn from all frames.

A rank owns a range of env ids. After collecting, every rank receives the frames of all, so that whatever
follows (advantages, minibatches, normalisers, curricula, metrics) is computed from the same numbers as in one
process and comes out alike everywhere. Only what takes long is divided: steps of envs, values of the critic,
and the gradient of a minibatch, which is the sum over `shards` equal parts of it. Shards are added in their
order, whatever rank computed them: with as many shards, runs of any number of ranks are the same to the bit.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.ranks.shared import SharedMemory

# Of so many ranks all shards are sent to all and added in order; more ranks add on the way, which is less
# to send, but in an order that depends on their number.
MOST_IN_ORDER = 8
_GONE = re.compile("[Cc]onnection|Broken pipe|Socket|timed out|Timed out")  # in errors of torch


class RankLost(ConnectionError):  # noqa: N818 (it says what it is without a suffix)
    """The error of a collective that another rank of the run has left."""


@contextlib.contextmanager
def lost_ranks() -> Iterator[None]:
    """Turn torch's errors about a rank that is gone into one sentence."""
    try:
        yield
    except (RuntimeError, ConnectionError) as error:
        if not isinstance(error, ConnectionError) and not _GONE.search(str(error)):
            raise
        raise RankLost(
            "another rank of this run has ended, without which this one cannot go on"
        ) from error


class Ranks:
    """The one rank of an ordinary run; it owns all envs and all shards."""

    rank, size = 0, 1

    def __init__(self, *, shards: int = 1) -> None:
        self.shards = shards

    @property
    def own_shards(self) -> range:
        """Return the numbers of the shards that this rank computes."""
        each = self.shards // self.size
        return range(self.rank * each, (self.rank + 1) * each)

    def sum_shards(self, own: Sequence[Tensor]) -> Tensor:
        """Return the sum over all shards, in their order, of tensors that every rank has for its own."""
        return _in_order(own)

    def all_reduce(self, part: Tensor) -> Tensor:
        """Return the sum over all ranks; each has zeros where another one has numbers."""
        return part

    def all_gather(self, own: Tensor, axis: int) -> Tensor:
        """Return the tensors of all ranks behind one another along the axis of envs."""
        return own

    def chunk(self, whole: Tensor, axis: int) -> Tensor:
        """Return this rank's part of what `all_gather` returned."""
        return whole

    def gather_rollout(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout with the rows of all ranks, in the order of env ids."""
        return rollout

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """Return the largest of each number over all ranks."""
        return numbers


class RankGroup(Ranks):
    """One of several ranks that have joined a process group of torch.distributed.

    With `memory`, which those of one machine share, CPU tensors go through that.
    """

    def __init__(
        self, *, rank: int, size: int, shards: int, memory: SharedMemory | None = None
    ) -> None:
        super().__init__(shards=shards)
        self.rank, self.size, self._memory = rank, size, memory

    def sum_shards(self, own: Sequence[Tensor]) -> Tensor:
        """Return the sum over all shards, in their order, of tensors that every rank has for its own."""
        if self.size > MOST_IN_ORDER:
            return self.all_reduce(_in_order(own))
        if self._memory is not None and own[0].device.type == "cpu":
            with lost_ranks():
                return self._memory.sum(own)
        return _in_order(self._all_gather(torch.stack(tuple(own))).flatten(0, 1).unbind())

    def all_reduce(self, part: Tensor) -> Tensor:
        """Return the sum over all ranks; each has zeros where another one has numbers."""
        with lost_ranks():
            if self._memory is not None and part.device.type == "cpu":
                return self._memory.sum([part.reshape(-1)]).view_as(part)
            dist.all_reduce(part)
        return part

    def all_gather(self, own: Tensor, axis: int) -> Tensor:
        """Return the tensors of all ranks behind one another along the axis of envs."""
        return torch.cat(self._all_gather(own).unbind(), axis)

    def chunk(self, whole: Tensor, axis: int) -> Tensor:
        """Return this rank's part of what `all_gather` returned."""
        return whole.chunk(self.size, axis)[self.rank].clone()

    def gather_rollout(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout with the rows of all ranks, in the order of env ids."""
        return _of_leaves(rollout, lambda leaf: self._all_gather(leaf).flatten(0, 1), self.size)

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """Return the largest of each number over all ranks."""
        state = zlib.crc32(torch.get_rng_state().numpy().tobytes())
        row = torch.tensor([*numbers, state, -state], dtype=torch.int64)
        *found, most, least = self._all_gather(row).amax(0).tolist()
        if most != -least:
            raise RuntimeError(
                "ranks are out of step: their random numbers differ, so they would learn from different "
                "minibatches; expected an env and an agent that draw alike on every rank, as by "
                "navrl.ranks.noise"
            )
        return tuple(found)

    def _all_gather(self, own: Tensor) -> Tensor:
        """Return the tensors of all ranks (ranks, ...)."""
        with lost_ranks():
            if self._memory is not None and own.device.type == "cpu":
                return self._memory.all_gather(own)
            sent = own.contiguous().reshape(-1).view(torch.uint8)  # every back end can send bytes
            whole = sent.new_empty(self.size * len(sent))
            dist.all_gather_single(whole, sent)
        return whole.view(own.dtype).view(self.size, *own.shape)


def check_shares(num_envs: int, ranks: int, shards: int) -> None:
    """Raise ConfigError unless envs and shards are shared evenly."""
    if num_envs % ranks:
        raise ConfigError(
            f"num_envs = {num_envs} cannot be shared evenly by {ranks} ranks; expected a multiple of "
            f"{ranks}; change num_envs, or the number of ranks"
        )
    if num_envs % shards:
        raise ConfigError(
            f"num_envs = {num_envs} cannot be shared evenly by shards = {shards}; expected a multiple; "
            "change num_envs or shards"
        )
    if shards % ranks:
        raise ConfigError(
            f"shards = {shards} cannot be shared evenly by {ranks} ranks; expected a multiple of {ranks}; "
            "change shards, or the number of ranks"
        )


def _in_order(rows: Sequence[Tensor]) -> Tensor:
    total, *others = rows
    for row in others:
        total = total + row
    return total


def _of_leaves(
    rollout: TensorDictBase, function: Callable[[Tensor], Tensor], times: int
) -> TensorDictBase:
    """Return a TensorDict of `times` as many rows, with what the function makes of every tensor in order."""
    found = TensorDict({}, [times * rollout.shape[0], *rollout.shape[1:]], device=rollout.device)
    for name in sorted(rollout.keys()):
        leaf = rollout.get(name)
        if isinstance(leaf, TensorDictBase):
            found.set(name, _of_leaves(leaf, function, times))
        elif isinstance(leaf, Tensor):
            found.set(name, function(leaf))
        else:
            found.set_non_tensor(name, rollout.get_non_tensor(name))
    return found
