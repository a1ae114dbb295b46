"""Tensor memory: a ring of frames in one TensorDict that is allocated once."""

import torch
from tensordict import TensorDictBase

from navrl.config.checks import require_whole


class TensorMemory:
    """A ring of `capacity` frames along one axis: appended in batches, read as views of the memory itself.

    The newest frames overwrite the oldest, so a view is valid until its frames are overwritten.
    """

    def __init__(
        self,
        example: TensorDictBase,
        *,
        capacity: int,
        axis: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        """Take keys, shapes, dtypes and, by default, the device of `example`, of one frame or more."""
        require_whole("capacity", capacity, 1)
        self.capacity, self.axis = capacity, axis
        self._before = (slice(None),) * axis  # the axes in front of the ring's
        size = [*example.batch_size[:axis], capacity, *example.batch_size[axis + 1 :]]
        frame = example[(*self._before, slice(0, 1))]
        frame = frame if device is None else frame.to(device)
        self._frames = frame.expand(*size).clone()
        self.clear()

    def clear(self) -> None:
        """Forget every frame; the memory stays allocated."""
        self._length = self._next = 0

    def __len__(self) -> int:
        return self._length

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole memory, however full it is."""
        leaves = self._frames.values(include_nested=True, leaves_only=True)
        return sum(leaf.numel() * leaf.element_size() for leaf in leaves)

    def append(self, frames: TensorDictBase) -> None:
        """Add frames in their order; if more come than fit, the last ones stay."""
        count = frames.batch_size[self.axis]
        skipped = max(0, count - self.capacity)
        start = (self._next + skipped) % self.capacity
        while skipped < count:
            room = min(self.capacity - start, count - skipped)
            rows = frames[(*self._before, slice(skipped, skipped + room))]
            self._between(start, start + room).update_(rows, non_blocking=True)
            skipped += room
            start = (start + room) % self.capacity
        self._next = (self._next + count) % self.capacity
        self._length = min(self._length + count, self.capacity)

    def parts(self) -> list[TensorDictBase]:
        """Return views of all frames, oldest first: one, or two if they wrap around the end of the memory."""
        first = (self._next - self._length) % self.capacity
        if first + self._length <= self.capacity:
            return [self._between(first, first + self._length)] if self._length else []
        return [self._between(first, self.capacity), self._between(0, self._next)]

    def _between(self, start: int, stop: int) -> TensorDictBase:
        if (start, stop) == (0, self.capacity):
            return self._frames.copy()  # the same tensors; keys added to the copy never get in here
        return self._frames[(*self._before, slice(start, stop))]
