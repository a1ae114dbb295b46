"""Shapes that a world's `draw(state)` returns; `navrl replay` draws them, in the units of the world.

    def draw(self, state):
        return [Circle(state.place, 0.5, colour="agent", trail=True), Circle((0.0, 0.0), 1.0, colour="goal")]

A place is a tensor (2, N), x to the right and y up, env axis last; (2, K, N) is K shapes of one kind. It may
be written as a pair (x, y) of numbers or of tensors (N,) or (K, N), and K places as a list of pairs. A line
or a polygon is a list of places. The number of shapes and of their points is the same at every step; what
comes and goes has `visible`.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from navrl.config.checks import ConfigError, require_choice

Place: TypeAlias = Tensor | Sequence[object]
Numbers: TypeAlias = float | bool | Tensor | Sequence[float]  # one for all, K, (N,) or (K, N)
# The page chooses a colour for each of these, in its light theme and in its dark one.
COLOURS = ("agent", "opponent", "goal", "danger", "obstacle", "quiet", "text")
_AXES, _WITH_COUNT = 2, 3


class Circle(NamedTuple):
    """A disc, or a ring if it is not filled; never smaller than a dot."""

    place: Place
    radius: Numbers = 0.0
    colour: str | Numbers = (
        "agent"  # of COLOURS, or whole numbers that tell shapes apart; below 0: quiet
    )
    visible: Numbers = True
    filled: bool = True
    trail: bool = False  # with its way so far
    label: str = ""  # in the legend


class Arrow(NamedTuple):
    """An arrow between two places, such as a velocity."""

    tail: Place
    head: Place
    colour: str | Numbers = "agent"
    visible: Numbers = True
    label: str = ""


class Line(NamedTuple):
    """A line through places."""

    points: Place
    colour: str | Numbers = "quiet"
    visible: Numbers = True
    label: str = ""


class Polygon(NamedTuple):
    """An area within places."""

    points: Place
    colour: str | Numbers = "obstacle"
    visible: Numbers = True
    filled: bool = True
    trail: bool = False  # with the way of its first place so far
    label: str = ""


class Text(NamedTuple):
    """A word at a place, or one for each of K places."""

    place: Place
    text: str | Sequence[str]
    colour: str | Numbers = "text"
    visible: Numbers = True


Shape: TypeAlias = Circle | Arrow | Line | Polygon | Text


class Batch(NamedTuple):
    """The numbers of a shape for all envs; an env axis of 1 counts for all of them."""

    points: Tensor  # (2, P, K, N or 1)
    radius: Tensor  # (K, N or 1)
    colour: Tensor  # whole numbers (K, N or 1); zeros if it has a name
    visible: Tensor  # (K, N or 1)


def batched(shape: Shape, num_envs: int) -> Batch:
    """Return the numbers of a shape; raise ConfigError about one that cannot be drawn."""
    kind = type(shape).__name__
    _require_shape(shape, kind)
    corners = _corners(shape)
    if not corners:
        _refuse(f"a {kind} without points", "a list of places")
    points = torch.stack(_alike(corners, f"the points of a {kind}"), 1)
    if points.shape[-1] not in (1, num_envs):
        _refuse(
            f"a {kind} for {points.shape[-1]} envs",
            f"tensors with the env axis last, of {num_envs}",
        )
    count = points.shape[2]
    if isinstance(shape.colour, str):
        require_choice(f"the colour of a {kind} in draw()", shape.colour, COLOURS)
    rows = {
        "radius": getattr(shape, "radius", 0.0),
        "visible": shape.visible,
        "colour": 0.0 if isinstance(shape.colour, str) else shape.colour,
    }
    found = {name: _rows(kind, name, value, count, num_envs) for name, value in rows.items()}
    for name, numbers in {"places": points, **found}.items():
        if not bool(torch.isfinite(numbers).all()):
            _refuse(f"a {kind} whose {name} are infinite or no numbers", "finite numbers")
    if isinstance(shape, Text) and not isinstance(shape.text, str) and len(shape.text) != count:
        _refuse(f"a Text with {len(shape.text)} words at {count} places", "one word for each place")
    return Batch(points, found["radius"], found["colour"], found["visible"])


def _require_shape(shape: Shape, kind: str) -> None:
    """Raise ConfigError unless it is a shape, and what is no number in it is text or a flag."""
    if not isinstance(shape, Circle | Arrow | Line | Polygon | Text):
        _refuse(f"a {kind}", "one of Circle, Arrow, Line, Polygon, Text of navrl.envs.core.shapes")
    for name, plain in {"label": str, "filled": bool, "trail": bool}.items():
        value = getattr(shape, name, plain())
        if not isinstance(value, plain):
            expected = "text" if plain is str else "True or False, the same for all envs"
            _refuse(f"a {kind} whose {name} is a {type(value).__name__}", expected)


def _corners(shape: Shape) -> list[Tensor]:
    """Return the places of a shape in their order, each (2, K, N)."""
    if isinstance(shape, Arrow):
        return [_places(shape.tail), _places(shape.head)]
    if not isinstance(shape, Line | Polygon):
        return [_places(shape.place)]
    if isinstance(shape.points, Tensor):
        return [_places(place) for place in shape.points.unbind(1)]
    return [_places(place) for place in shape.points]  # type: ignore[arg-type]


def _places(value: Place) -> Tensor:
    """Return a place as (2, K, N), a single one as (2, 1, N)."""
    if isinstance(value, Tensor):
        if value.ndim not in (_AXES, _WITH_COUNT) or value.shape[0] != _AXES:
            _refuse(f"a place of shape {tuple(value.shape)}", "(2, N) or (2, K, N)")
        return (value if value.ndim == _WITH_COUNT else value.unsqueeze(1)).float()
    if len(value) == _AXES and all(isinstance(part, Tensor | float | int) for part in value):
        parts = [torch.as_tensor(part, dtype=torch.float32) for part in value]
        rows = [part if part.ndim == _AXES else part.reshape(1, -1) for part in parts]
        return torch.stack(_alike(rows, "x and y of a place"))
    if not value or isinstance(value, str):
        _refuse(f"a place {value!r}", "a pair (x, y), or a list of pairs")
    every = [_places(place) for place in value]  # type: ignore[arg-type]
    if any(place.shape[1] != 1 for place in every):
        _refuse("a list of places of which one is several", "a list of single places, (2, N)")
    return torch.cat(_alike(every, "the places of a list"), 1)


def _alike(rows: Sequence[Tensor], what: str) -> list[Tensor]:
    """Return tensors (..., K, N) of the same K and N; those that have 1 are repeated."""
    sizes = [sorted({row.shape[axis] for row in rows} - {1}) for axis in (-2, -1)]
    if max(map(len, sizes)) > 1:
        shapes = ", ".join(str(tuple(row.shape)) for row in rows)
        _refuse(f"{what} of the shapes {shapes}", "the same K and N in all of them")
    count, envs = (size[0] if size else 1 for size in sizes)
    return [row.expand(*row.shape[:-2], count, envs) for row in rows]


def _rows(kind: str, name: str, value: Numbers, count: int, num_envs: int) -> Tensor:
    """Return numbers as (K, N), or (K, 1) if they are the same for all envs."""
    rows = torch.as_tensor(value).float()
    if not isinstance(value, Tensor):  # one number, or a number for each of K
        rows = rows.unsqueeze(-1)
    rows = rows if rows.ndim == _AXES else rows.reshape(1, -1)
    if rows.shape[0] not in (1, count) or rows.shape[-1] not in (1, num_envs):
        _refuse(
            f"a {kind} whose {name} has the shape {tuple(rows.shape)}", f"({count}, {num_envs})"
        )
    return rows.expand(count, -1)


def _refuse(got: str, expected: str) -> None:
    raise ConfigError(f"draw(state) returned {got}; expected {expected}; change draw")
