"""Copies of a state's tensors in memory that is used again and again."""

from collections.abc import Mapping

import torch
from torch import Tensor


class Snapshot:
    """Memory for one state. Whoever holds it may read it until it is filled again."""

    def __init__(self) -> None:
        self._own: dict[str, Tensor] = {}

    def fill(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of `tensors` on the CPU: they alias neither these nor another snapshot.

        Memory is allocated only where a shape is new: fresh pages cost several times the copy.
        """
        self._own = {name: self._room(name, tensor) for name, tensor in tensors.items()}
        with torch.no_grad():
            # One call for all: what a call costs is more than copying a small leaf.
            torch._foreach_copy_([*self._own.values()], [*tensors.values()], non_blocking=True)
        if any(tensor.is_cuda for tensor in tensors.values()):
            torch.cuda.synchronize()  # one wait for all copies into pinned memory
        return dict(self._own)

    def _room(self, name: str, tensor: Tensor) -> Tensor:
        own = self._own.get(name)
        if own is not None and own.is_same_size(tensor) and own.dtype == tensor.dtype:
            return own
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
