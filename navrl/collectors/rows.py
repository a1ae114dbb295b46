"""Who keeps the rows of a leaf from when they are collected until they are learned from."""

import time
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navrl.storage.codec import compress, decompress

_BLOCK_BYTES = 1 << 18  # fits the second-level cache with what is made of it
_FEW = 1 << 16  # blocks, whose numbers then have two bytes
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Numbers = NDArray[np.int64]


class _Block(NamedTuple):
    """Some steps of some envs."""

    content: bytes  # compressed, unless that would not be smaller
    raw_bytes: int


class CompressedRows:
    """Independent lz4 blocks, each of some envs for the steps that came together."""

    def __init__(self, *, steps: int, executor: Executor, threads: int) -> None:
        """The executor's `threads` share the blocks between them."""
        self._steps, self._executor, self._threads = steps, executor, threads
        self.seconds, self.largest_bytes = 0.0, 0  # of unpacking, and what was unpacked at most
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self._blocks: list[_Block] = []  # of the first steps all envs, then of the next
        self._starts: list[int] = []  # the first step of each piece, and the end of the last
        self._envs = 0  # of a block

    @property
    def num_bytes(self) -> int:
        """What the rows take as they are kept."""
        return sum(len(block.content) for block in self._blocks)

    def append(self, frames: Tensor) -> None:
        """The next steps of all envs (N, C, ...)."""
        if not self._blocks:
            self._row = torch.empty(frames.shape[2:], dtype=frames.dtype, device=frames.device)
            env_bytes = max(1, frames[0].numel() * frames.element_size())
            self._envs, self._num_envs = max(1, _BLOCK_BYTES // env_bytes), frames.shape[0]
            self._starts = [0]
        pieces = torch.split(frames.cpu(), self._envs)
        self._blocks += self._executor.map(_compressed, pieces)
        self._starts.append(self._starts[-1] + frames.shape[1])

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The rows with these numbers; every block is unpacked at most once."""
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

        jobs = list(
            zip(found.tolist(), wanted, strict=False)
        )  # numpy splits nothing into one piece
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
                "these frames are no more: a rollout lasts until the next one is collected; clone what is "
                "needed for longer"
            )

    def _places(self, index: Numbers) -> tuple[NDArray[np.integer], Numbers]:
        """The block of every row, and where in the block it is."""
        env, step = np.divmod(index, self._steps)
        starts = np.asarray(self._starts)
        piece = np.searchsorted(starts, step, side="right") - 1
        in_piece = -(-self._num_envs // self._envs)  # blocks
        block = piece * in_piece + env // self._envs
        width = np.diff(starts)[piece]
        number = np.uint16 if len(self._blocks) <= _FEW else np.int64
        return block.astype(number), env % self._envs * width + step - starts[piece]

    def _unpacked(self, number: int) -> NDArray[np.uint8]:
        """The bytes of a block."""
        content, raw_bytes = self._blocks[number]
        if len(content) < raw_bytes:
            return decompress(content, raw_bytes)
        return np.frombuffer(content, np.uint8)


class HostRows:
    """Rows in the host's memory, fetched to the device where they are needed."""

    def __init__(self, *, steps: int) -> None:
        self._steps = steps
        self.seconds, self.largest_bytes = 0.0, 0  # not counted
        self._memory: Tensor | None = None
        self.clear()

    def clear(self) -> None:
        """Begin again with the first step."""
        self._filled = 0

    @property
    def num_bytes(self) -> int:
        """Nothing on the device."""
        return 0

    def append(self, frames: Tensor) -> None:
        """The next steps of all envs (N, C, ...)."""
        if self._memory is None:
            shape = (frames.shape[0], self._steps, *frames.shape[2:])
            self._memory = torch.empty(shape, dtype=frames.dtype, pin_memory=frames.is_cuda)
            self._device = frames.device
        self._memory[:, self._filled : self._filled + frames.shape[1]].copy_(frames)
        self._filled += frames.shape[1]

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The rows with these numbers."""
        if self._memory is None or self._filled != self._steps:
            raise RuntimeError("no rollout is complete; collect one first")
        rows = self._memory.flatten(0, 1).index_select(0, index.cpu())
        return rows.to(self._device) if out is None else out.copy_(rows)


class NextRows:
    """What "next" holds: the following step of the same env, and rows of its own where that differs."""

    def __init__(self, now: CompressedRows | HostRows, *, steps: int) -> None:
        self._now, self._steps = now, steps
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self._filled = 0
        self._last: Tensor | None = None  # "next" of the step before what comes now
        self._numbers: list[Tensor] = []
        self._rows: list[Tensor] = []

    @property
    def num_bytes(self) -> int:
        """What the rows of its own take."""
        return sum(rows.numel() * rows.element_size() for rows in (*self._rows, *self._numbers))

    def append(self, now: Tensor, after: Tensor) -> None:
        """The next steps of all envs (N, C, ...): what was seen, and what was seen after it."""
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
        """Rows that are not the following step."""
        rows = after.flatten(0, 1)
        own = np.arange(len(rows))
        if now is not None:
            (own,) = _differ(rows, now.flatten(0, 1)).nonzero()
        env, step = np.divmod(own, after.shape[1])
        self._numbers.append(torch.from_numpy(env * self._steps + step + first))
        self._rows.append(rows[torch.from_numpy(own)])

    def _finish(self) -> None:
        """One table, in the order of the numbers."""
        numbers, order = torch.cat(self._numbers).sort()
        self._numbers, self._rows = [numbers], [torch.cat(self._rows).index_select(0, order)]
        self._last = None

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The rows with these numbers."""
        (numbers,), (rows,) = self._numbers, self._rows
        index = index.cpu()
        # Behind the last step of the last env there is nothing; that row is one of its own anyhow.
        found = self._now.at((index + 1).clamp_max(int(numbers[-1])), out)
        place = torch.searchsorted(numbers, index).clamp_max(len(numbers) - 1)
        own = (numbers[place] == index).nonzero().squeeze(1)
        return found.index_copy_(0, own.to(found.device), rows[place[own]].to(found.device))


def _compressed(frames: Tensor) -> _Block:
    raw = _bytes(frames.contiguous())
    content = compress(raw)
    return _Block(content if len(content) < raw.size else raw.tobytes(), raw.size)


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """A dense tensor's memory, whatever its dtype."""
    words = tensor.view(_WORDS[tensor.element_size()]).numpy()
    return words.reshape(-1).view(np.uint8)


def _records(rows: Tensor) -> NDArray[np.void]:
    """A dense tensor's memory, every row as one item: copied at once and never looked at."""
    raw = _bytes(rows)
    records: NDArray[np.void] = raw.view(f"V{max(1, raw.size // max(1, len(rows)))}")
    return records


def _differ(one: Tensor, other: Tensor) -> NDArray[np.bool_]:
    """Of which rows (R, ...) the bits differ: a NaN is itself, and two zeros are not the same."""
    pair = [_bytes(rows.contiguous()).reshape(len(rows), -1) for rows in (one, other)]
    if pair[0].shape[1] % 8 == 0:
        pair = [raw.view(np.int64) for raw in pair]  # several times as fast
    differ: NDArray[np.bool_] = (pair[0] != pair[1]).any(1)
    return differ
