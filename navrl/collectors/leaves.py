"""Leaves of a rollout that are not there as they are: their rows are made when somebody asks for them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_aten: Any = torch.ops.aten
ROWS, FRAMES = 1, 2  # leading axes of (N * T, ...) and of (N, T, ...)


class Rows(Protocol):
    """What keeps the rows of a leaf, number n * T + t for env n at step t."""

    def at(self, index: Tensor, out: Tensor | None = None) -> Tensor:
        """The rows with these numbers, (len(index), ...); written into `out` if that is given."""


class Place(NamedTuple):
    """Which rows a leaf stands for."""

    first: int  # the number of the first
    steps: int  # T
    leading: int  # axes in front of those of a row
    at_once: int  # so many rows may be made at a time


class Leaf(torch.Tensor):
    """Stands for a tensor (N, T, ...), or for its rows (N * T, ...), that is kept in another form.

    Slices of the first axis and views that leave rows whole are leaves again. Rows by their numbers, and all
    envs at one step, are made without making the others. Whatever else is asked is asked of the whole tensor,
    which is made for that moment: correct, but no saving.
    """

    _rows: Rows
    _place: Place

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls: type["Leaf"], rows: Rows, place: Place, shape: Sequence[int], like: Tensor
    ) -> "Leaf":
        """`like` has the dtype and the device that its tensors have."""
        make: Any = torch.Tensor._make_wrapper_subclass
        leaf: Leaf = make(cls, shape, dtype=like.dtype, device=like.device)
        leaf._rows, leaf._place = rows, place
        return leaf

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Leaf({tuple(self.shape)}, {self.dtype}, rows kept by {type(self._rows).__name__})"

    @property
    def rows_at_once(self) -> int:
        """So many rows a reader should ask for together: they cost memory, and asking often costs time."""
        return self._place.at_once

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer without making the whole tensor, or make it."""
        kwargs = kwargs or {}
        answer = _ANSWERS.get(func)
        found = answer(*args, **kwargs) if answer is not None else None
        if found is not None:
            return found
        whole = lambda x: x.whole() if isinstance(x, Leaf) else x  # noqa: E731
        return func(*pytree.tree_map(whole, args), **pytree.tree_map(whole, kwargs))

    def whole(self) -> Tensor:
        """The tensor that it stands for."""
        count = self.shape[: self._place.leading].numel()
        index = torch.arange(self._place.first, self._place.first + count)
        return self._rows.at(index).view(self.shape)

    def _like(self, shape: Sequence[int], place: Place) -> "Leaf":
        return Leaf(self._rows, place, shape, self)


def _same(leaf: Leaf, *_: Any, **__: Any) -> Leaf:
    return leaf._like(leaf.shape, leaf._place)


def _view(leaf: Leaf, size: Sequence[int], *_: Any) -> Leaf | None:
    """(N, T, ...) as (N * T, ...) and back."""
    place = leaf._place
    row = leaf.shape[place.leading :]
    leading = len(size) - len(row)
    rest = max(1, -torch.Size(size).numel())  # of what is -1
    size = [leaf.numel() // rest if length == -1 else length for length in size]
    fits = leading == ROWS or (
        leading == FRAMES and size[1] == place.steps and place.first % place.steps == 0
    )
    if not fits or tuple(size[leading:]) != tuple(row) or torch.Size(size).numel() != leaf.numel():
        return None
    return leaf._like(size, place._replace(leading=leading))


def _slice(
    leaf: Leaf, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Leaf | None:
    length = leaf.shape[dim]
    first, stop, step = slice(start, end, step).indices(length)
    if (first, stop, step) == (0, length, 1):
        return _same(leaf)
    if dim != 0 or step != 1:
        return None
    place = leaf._place
    rows = place.steps if place.leading == FRAMES else 1  # of one index
    shape = (max(stop - first, 0), *leaf.shape[1:])
    return leaf._like(shape, place._replace(first=place.first + first * rows))


def _split(leaf: Leaf, size: int | Sequence[int], dim: int = 0) -> list[Leaf] | None:
    if dim != 0:
        return None
    length = leaf.shape[0]
    sizes = size if not isinstance(size, int) else [size] * -(-length // size)
    parts, start = [], 0
    for each in sizes:
        part = _slice(leaf, 0, start, min(start + each, length))
        parts.append(part)
        start += each
    return [part for part in parts if part is not None]


def _select(leaf: Leaf, dim: int, index: int) -> Tensor | None:
    """All envs at one step."""
    place = leaf._place
    if dim != 1 or place.leading != FRAMES:
        return None
    step = index % place.steps
    numbers = torch.arange(leaf.shape[0]) * place.steps + (place.first + step)
    return leaf._rows.at(numbers)


def _index_select(
    leaf: Leaf, dim: int, index: Tensor, *, out: Tensor | None = None
) -> Tensor | None:
    if dim != 0 or leaf._place.leading != ROWS:
        return None
    return leaf._rows.at(index + leaf._place.first, out)


def _index(leaf: Leaf, indices: Sequence[Tensor | None]) -> Tensor | None:
    """leaf[numbers] of rows; from the end where they are negative."""
    numbers, *others = indices
    if others or numbers is None or numbers.dtype != torch.int64 or numbers.ndim != 1:
        return None
    return _index_select(leaf, 0, torch.where(numbers < 0, numbers + leaf.shape[0], numbers))


_ANSWERS: dict[Any, Callable[..., Any]] = {
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
