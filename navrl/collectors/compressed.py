"""collector=compressed: keep observations in lz4 blocks until a minibatch needs their rows."""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite
from torchrl.envs import EnvBase

from navrl.collectors.lazy_tensor import FRAMES, LazyTensor, RowRange
from navrl.collectors.stepwise import StepwiseCollector
from navrl.collectors.sync import CollectorOptions
from navrl.config.checks import require_number, require_whole
from navrl.storage.blocks import differing_rows, words_of
from navrl.storage.codec import compress, decompress

_MEBIBYTE = 1024.0 * 1024.0
_BLOCK_BYTES = 1 << 18  # fits the second-level cache with its unpacked copy
_FEW_BLOCKS = 1 << 16  # their numbers have two bytes

Key = tuple[str, ...]
Numbers = NDArray[np.int64]


class CompressedCollector(StepwiseCollector):
    """A collector of (N, T) frames of one policy version; read-only, overwritten by the next iteration.

    The frames are those of SyncCollector, bit for bit. Compressed tensors of a rollout are LazyTensors.
    """

    def __init__(
        self,
        *,
        keys: Sequence[str],
        unpacked_share: float,
        threads: int,
        steps_at_once: int,
        **options: Unpack[CollectorOptions],
    ) -> None:
        """Compress the observations in `keys`, groups or tensors, also in "next".

        At most `unpacked_share` of the rows are unpacked at a time, by `threads` threads.
        """
        require_number("collector.unpacked_share", unpacked_share, above=0.0, most=1.0)
        require_whole("collector.threads", threads, 1)
        env, rollout_steps = options["env"], options["rollout_steps"]
        self._keys = _observation_keys(env, keys)
        super().__init__(steps_at_once=steps_at_once, **options)
        executor = ThreadPoolExecutor(threads, thread_name_prefix="lz4")
        self._now = {
            key: CompressedRows(steps=rollout_steps, executor=executor, threads=threads)
            for key in self._keys
        }
        self._next = {key: NextRows(now, steps=rollout_steps) for key, now in self._now.items()}
        self._at_once = math.ceil(unpacked_share * env.batch_size.numel() * rollout_steps)
        self._plain_bytes, self._packing_s = 0, 0.0

    def _clear(self) -> None:
        super()._clear()
        for key in self._keys:
            self._now[key].clear()
            self._next[key].clear()

    def _append(self, piece: TensorDictBase) -> None:
        began = time.perf_counter()
        self._plain_bytes = self._plain_bytes or _num_bytes(piece) * self._pieces
        super()._append(piece.exclude(*self._keys, *(("next", *key) for key in self._keys)))
        for key in self._keys:
            now, after = piece.get(key), piece.get(("next", *key))
            self._now[key].append(now)
            self._next[key].append(now, after)
        self._packing_s += time.perf_counter() - began

    def _rollout(self) -> TensorDictBase:
        rollout = super()._rollout()
        place = RowRange(first=0, steps=self._steps, leading=FRAMES, at_once=self._at_once)
        for key in self._keys:
            like = self._final_rollout.get(key)
            shape = (like.shape[0], self._steps, *like.shape[2:])
            rollout.set(key, LazyTensor(self._now[key], place, shape, like))
            rollout.set(("next", *key), LazyTensor(self._next[key], place, shape, like))
        return rollout

    def metrics(self) -> dict[str, float]:
        """Return the most memory that a rollout takes while learning, and the seconds of (un)packing."""
        if self._memory is None:
            return {}
        packed = sum(now.num_bytes + now.largest_bytes for now in self._now.values())
        packed += sum(after.num_bytes for after in self._next.values())
        held = self._memory.num_bytes + packed + _num_bytes(self._final_rollout)
        seconds = {
            "time/pack": self._packing_s,
            "time/unpack": sum(now.seconds for now in self._now.values()),
        }
        self._packing_s = 0.0
        for now in self._now.values():
            now.seconds, now.largest_bytes = 0.0, 0
        return {
            "memory/batch_mb": held / _MEBIBYTE,
            "memory/batch_share": held / self._plain_bytes,  # of the rollout of collector=sync
            **seconds,
        }


def _observation_keys(env: EnvBase, names: Sequence[str]) -> list[Key]:
    """Return the observation tensors of these names; raise ValueError for teams and unknown names."""
    spec, found = env.observation_spec, []
    for name in names:
        key = tuple(name.split("/"))
        if key not in spec.keys(include_nested=True) and name not in spec:
            if "agents" in spec:
                raise ValueError(
                    "frames of a team are not compressed; expected an env of one agent; use "
                    "collector=stepwise"
                )
            known = ", ".join(map(str, spec))
            raise ValueError(
                f"collector.keys names {name}, and the env observes {known}; expected some of these; "
                "change collector.keys"
            )
        found += _tensors_below(key, spec[key])
    return found


def _tensors_below(key: Key, spec: Any) -> list[Key]:
    if not isinstance(spec, Composite):
        return [key]
    return [found for name, inner in spec.items() for found in _tensors_below((*key, name), inner)]


def _num_bytes(frames: TensorDictBase) -> int:
    tensors = frames.values(include_nested=True, leaves_only=True)
    return sum(x.numel() * x.element_size() for x in tensors if isinstance(x, Tensor))


class _PackedBlock(NamedTuple):
    """Some steps of some envs."""

    content: bytes  # compressed, unless that would not be smaller
    raw_bytes: int


class CompressedRows:
    """The rows of one tensor in independent lz4 blocks, each of some envs for a few steps."""

    def __init__(self, *, steps: int, executor: Executor, threads: int) -> None:
        """Share the work between the executor's `threads`."""
        self._steps, self._executor, self._threads = steps, executor, threads
        self.seconds, self.largest_bytes = 0.0, 0  # of unpacking, and the most that was unpacked
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self._blocks: list[_PackedBlock] = []  # of the first steps all envs, then of the next
        self._starts: list[int] = []  # the first step of each piece, and the end of the last
        self._envs = 0  # of a block

    @property
    def num_bytes(self) -> int:
        """Bytes of the blocks."""
        return sum(len(block.content) for block in self._blocks)

    def append(self, frames: Tensor) -> None:
        """Add the next steps of all envs (N, C, ...)."""
        if not self._blocks:
            self._row = torch.empty(frames.shape[2:], dtype=frames.dtype, device=frames.device)
            env_bytes = max(1, frames[0].numel() * frames.element_size())
            self._envs, self._num_envs = max(1, _BLOCK_BYTES // env_bytes), frames.shape[0]
            self._starts = [0]
        pieces = torch.split(frames.cpu(), self._envs)
        self._blocks += self._executor.map(_compressed, pieces)
        self._starts.append(self._starts[-1] + frames.shape[1])

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the rows with these numbers; every block is unpacked at most once."""
        began = time.perf_counter()
        rows = torch.empty((len(index), *self._row.shape), dtype=self._row.dtype)
        if out is not None and out.device == rows.device:
            rows = out
        records = _records(rows)
        self._check()
        block, place = self._places(index.cpu().numpy())
        order = np.argsort(block, kind="stable")  # a radix sort where there are few blocks
        found, starts = np.unique(block[order], return_index=True)
        wanted = np.split(order, starts[1:])

        def unpack(share: int) -> None:
            for number, into in jobs[share :: self._threads]:
                records[into] = self._unpacked(number).view(records.dtype)[place[into]]

        # Not strict: numpy splits nothing into one piece.
        jobs = list(zip(found.tolist(), wanted, strict=False))
        list(self._executor.map(unpack, range(self._threads)))
        self.seconds += time.perf_counter() - began
        self.largest_bytes = max(self.largest_bytes, rows.numel() * rows.element_size())
        if rows is out:
            return rows
        moved = rows.to(self._row.device)
        return moved if out is None else out.copy_(moved)

    def _check(self) -> None:
        if not self._blocks or self._starts[-1] != self._steps:
            raise RuntimeError(
                "these frames are gone: a rollout lasts until the next one is collected; clone the tensors "
                "that are needed for longer"
            )

    def _places(self, index: Numbers) -> tuple[NDArray[np.integer], Numbers]:
        """Return the block of every row, and its position in the block."""
        env, step = np.divmod(index, self._steps)
        starts = np.asarray(self._starts)
        piece = np.searchsorted(starts, step, side="right") - 1
        in_piece = -(-self._num_envs // self._envs)  # blocks
        block = piece * in_piece + env // self._envs
        width = np.diff(starts)[piece]
        number = np.uint16 if len(self._blocks) <= _FEW_BLOCKS else np.int64
        return block.astype(number), env % self._envs * width + step - starts[piece]

    def _unpacked(self, number: int) -> NDArray[np.uint8]:
        content, raw_bytes = self._blocks[number]
        if len(content) < raw_bytes:
            return decompress(content, raw_bytes)
        return np.frombuffer(content, np.uint8)


class NextRows:
    """The rows of a tensor in "next": the following step of the same env, or rows of its own."""

    def __init__(self, now: CompressedRows, *, steps: int) -> None:
        self._now, self._steps = now, steps
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self._filled = 0
        self._last: Tensor | None = None  # "next" of the newest step
        self._numbers: list[Tensor] = []
        self._rows: list[Tensor] = []

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows that differ from the following step."""
        return sum(rows.numel() * rows.element_size() for rows in (*self._rows, *self._numbers))

    def append(self, now: Tensor, after: Tensor) -> None:
        """Add the next steps of all envs (N, C, ...): the tensor, and the same in "next"."""
        now, after, count = now.cpu(), after.cpu(), now.shape[1]
        if self._last is not None:
            self._keep(self._filled - 1, self._last, now[:, :1])
        if count > 1:
            self._keep(self._filled, after[:, :-1], now[:, 1:])
        self._filled += count
        self._last = after[:, -1:].clone()
        if self._filled == self._steps:  # nothing follows the last step
            self._keep(self._steps - 1, self._last, None)
            self._finish()

    def _keep(self, first: int, after: Tensor, now: Tensor | None) -> None:
        """Keep the rows that are not the following step."""
        differs = torch.ones(after.shape[:2]) if now is None else differing_rows(after, now)
        env, step = differs.nonzero(as_tuple=True)
        self._numbers.append(env * self._steps + step + first)
        self._rows.append(after[env, step])

    def _finish(self) -> None:
        """Join the rows to one table, in the order of their numbers."""
        numbers, order = torch.cat(self._numbers).sort()
        self._numbers, self._rows = [numbers], [torch.cat(self._rows).index_select(0, order)]
        self._last = None

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the rows with these numbers."""
        (numbers,), (rows,) = self._numbers, self._rows
        index = index.cpu()
        # Nothing follows the last step of the last env; that row is one of its own anyhow.
        found = self._now.at((index + 1).clamp_max(int(numbers[-1])), out)
        place = torch.searchsorted(numbers, index).clamp_max(len(numbers) - 1)
        own = (numbers[place] == index).nonzero().squeeze(1)
        return found.index_copy_(0, own.to(found.device), rows[place[own]].to(found.device))


def _compressed(frames: Tensor) -> _PackedBlock:
    raw = _bytes(frames.contiguous())
    content = compress(raw)
    return _PackedBlock(content if len(content) < raw.size else raw.tobytes(), raw.size)


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """Return a dense tensor's memory, whatever its dtype."""
    return words_of(tensor).reshape(-1).view(np.uint8)


def _records(rows: Tensor) -> NDArray[np.void]:
    """Return a dense tensor's memory with every row as one item, which is copied at once."""
    raw = _bytes(rows)
    records: NDArray[np.void] = raw.view(f"V{max(1, raw.size // max(1, len(rows)))}")
    return records
