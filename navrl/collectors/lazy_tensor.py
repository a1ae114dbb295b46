"""Tensors of a rollout that are kept in another form: their rows are made when they are read."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_aten: Any = torch.ops.aten
ROWS, FRAMES = 1, 2  # leading axes of (N * T, ...) and of (N, T, ...)


class Rows(Protocol):
    """The rows of a tensor in another form, number n * T + t for env n at step t."""

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the rows with these numbers, (len(index), ...); write them into `out` if it is given."""


class RowRange(NamedTuple):
    """The range of rows that a lazy tensor stands for."""

    first: int  # the number of the first row
    steps: int  # T
    leading: int  # axes in front of those of a row
    at_once: int  # rows that may be made at a time


class LazyTensor(torch.Tensor):
    """A stand-in for a tensor (N, T, ...), or for its rows (N * T, ...), that is kept in another form.

    Slices of the first axis and views that leave rows whole are lazy again. Rows by their numbers, and all
    envs at one step, are made without making the others. Every other operation gets the whole tensor, which
    is made for that moment: correct, but no saving.
    """

    _rows: Rows
    _place: RowRange

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls: type["LazyTensor"], rows: Rows, place: RowRange, shape: Sequence[int], like: Tensor
    ) -> "LazyTensor":
        """Create a stand-in with the dtype and the device of `like`."""
        make: Any = torch.Tensor._make_wrapper_subclass
        lazy: LazyTensor = make(cls, shape, dtype=like.dtype, device=like.device)
        lazy._rows, lazy._place = rows, place
        return lazy

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyTensor({tuple(self.shape)}, {self.dtype}, rows kept by {type(self._rows).__name__})"

    @property
    def rows_at_once(self) -> int:
        """Rows to read together: more cost memory, and fewer cost time."""
        return self._place.at_once

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation without making the whole tensor, or make it."""
        kwargs = kwargs or {}
        lazy = _LAZY_OPERATIONS.get(func)
        found = lazy(*args, **kwargs) if lazy is not None else None
        if found is not None:
            return found
        whole = lambda x: x.whole() if isinstance(x, LazyTensor) else x  # noqa: E731
        return func(*pytree.tree_map(whole, args), **pytree.tree_map(whole, kwargs))

    def whole(self) -> Tensor:
        """Make the tensor that it stands for."""
        count = self.shape[: self._place.leading].numel()
        index = torch.arange(self._place.first, self._place.first + count)
        return self._rows.at(index).view(self.shape)

    def _like(self, shape: Sequence[int], place: RowRange) -> "LazyTensor":
        return LazyTensor(self._rows, place, shape, self)


def _same(lazy: LazyTensor, *_: Any, **__: Any) -> LazyTensor:
    return lazy._like(lazy.shape, lazy._place)


def _view(lazy: LazyTensor, size: Sequence[int], *_: Any) -> LazyTensor | None:
    """View (N, T, ...) as (N * T, ...) and back."""
    place = lazy._place
    row = lazy.shape[place.leading :]
    leading = len(size) - len(row)
    rest = max(1, -torch.Size(size).numel())  # of what is -1
    size = [lazy.numel() // rest if length == -1 else length for length in size]
    fits = leading == ROWS or (
        leading == FRAMES and size[1] == place.steps and place.first % place.steps == 0
    )
    if not fits or tuple(size[leading:]) != tuple(row) or torch.Size(size).numel() != lazy.numel():
        return None
    return lazy._like(size, place._replace(leading=leading))


def _slice(
    lazy: LazyTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> LazyTensor | None:
    length = lazy.shape[dim]
    first, stop, step = slice(start, end, step).indices(length)
    if (first, stop, step) == (0, length, 1):
        return _same(lazy)
    if dim != 0 or step != 1:
        return None
    place = lazy._place
    rows = place.steps if place.leading == FRAMES else 1  # of one index
    shape = (max(stop - first, 0), *lazy.shape[1:])
    return lazy._like(shape, place._replace(first=place.first + first * rows))


def _split(lazy: LazyTensor, size: int | Sequence[int], dim: int = 0) -> list[LazyTensor] | None:
    if dim != 0:
        return None
    length = lazy.shape[0]
    sizes = size if not isinstance(size, int) else [size] * -(-length // size)
    parts, start = [], 0
    for count in sizes:
        parts.append(_slice(lazy, 0, start, min(start + count, length)))
        start += count
    return [part for part in parts if part is not None]


def _select(lazy: LazyTensor, dim: int, index: int) -> Tensor | None:
    """Make the rows of all envs at one step."""
    place = lazy._place
    if dim != 1 or place.leading != FRAMES:
        return None
    step = index % place.steps
    numbers = torch.arange(lazy.shape[0]) * place.steps + (place.first + step)
    return lazy._rows.at(numbers)


def _index_select(
    lazy: LazyTensor, dim: int, index: Tensor, *, out: Tensor | None = None
) -> Tensor | None:
    if dim != 0 or lazy._place.leading != ROWS:
        return None
    return lazy._rows.at(index + lazy._place.first, out)


def _index(lazy: LazyTensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Make the rows with these numbers, which count from the end where they are negative."""
    numbers, *others = indices
    if others or numbers is None or numbers.dtype != torch.int64 or numbers.ndim != 1:
        return None
    return _index_select(lazy, 0, torch.where(numbers < 0, numbers + lazy.shape[0], numbers))


_LAZY_OPERATIONS: dict[Any, Callable[..., Any]] = {
    _aten.detach.default: _same,
    _aten.alias.default: _same,
    _aten.view.default: _view,
    _aten._unsafe_view.default: _view,
    _aten._reshape_alias.default: _view,
    _aten.slice.Tensor: _slice,
    _aten.split.Tensor: _split,
    _aten.split_with_sizes.default: _split,
    _aten.select.int: _select,
    _aten.index.Tensor: _index,
    _aten.index_select.default: _index_select,
    _aten.index_select.out: _index_select,
}
