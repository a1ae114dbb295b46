"""The replay page of any world: its HTML and the data of one recorded episode."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from navrl.envs.core.shapes import Text
from navrl.view.html import WORLD, differenced, page
from navrl.view.world_recording import Curve, Drawing, Episode

_PARTS = 20_000  # of the picture's longer side: places are whole multiples of one
_DIGITS = 5  # of a number in a curve


def world_page(episode: Episode, *, title: str, subtitle: str, outcome: str) -> str:
    """Return the replay as one HTML file."""
    return page(WORLD, world_data(episode, title=title, subtitle=subtitle, outcome=outcome))


def world_data(episode: Episode, *, title: str, subtitle: str, outcome: str) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    unit = _unit(episode.drawings)
    return {
        "title": title,
        "subtitle": subtitle,
        "outcome": outcome,
        "steps": episode.steps,
        "marks": [{"step": step, "label": name} for name, step in episode.happened.items()],
        "unit": unit,
        "shapes": [_shape(drawing, unit) for drawing in episode.drawings],
        "curves": [_curve(curve) for curve in _shown(episode)],
    }


def outcome(episode: Episode, objective: str) -> str:
    """Return how an episode ended in words, such as 'Success after 23 steps'."""
    value, steps = episode.statistics[objective], f"{episode.steps} steps"
    name = objective.replace("_", " ")
    if objective in episode.rates:
        words = f"{name} after {steps}" if value > 0.5 else f"no {name} in {steps}"
    else:
        words = f"{name} {value:.4g} after {steps}"
    cut = " (and goes on)" if episode.ending == "cut" else ""
    return words[0].upper() + words[1:] + cut


def _unit(drawings: Sequence[Drawing]) -> float:
    """Return the length of which all places are whole multiples, a power of ten."""
    lows = [float(drawing.points.min()) for drawing in drawings]
    highs = [float(drawing.points.max()) for drawing in drawings]
    extent = max(highs, default=0.0) - min(lows, default=0.0)
    return 10.0 ** math.floor(math.log10(max(extent, 1e-9) / _PARTS))


def _shape(drawing: Drawing, unit: float) -> dict[str, Any]:
    """Return one shape: constants alone, or a list over time for each of its instances."""
    shape = drawing.shape
    tracks = drawing.points.permute(3, 2, 1, 0) / unit  # (K, P, 2, T)
    found = {
        "kind": type(shape).__name__,
        "label": getattr(shape, "label", ""),
        "filled": getattr(shape, "filled", False),
        "trail": getattr(shape, "trail", False),
        "points": [[[_track(row) for row in point] for point in each] for each in tracks],
        "radius": _numbers(drawing.radius),
        "visible": _numbers(drawing.visible),
        "colour": shape.colour if isinstance(shape.colour, str) else _numbers(drawing.colour),
    }
    if isinstance(shape, Text):
        words = [shape.text] * tracks.shape[0] if isinstance(shape.text, str) else list(shape.text)
        found["words"] = [str(word) for word in words]
    return found


def _track(values: Tensor) -> list[int]:
    """Return whole numbers over time, differenced twice; one number if they are always the same."""
    whole = values.double().round()
    return differenced((whole[:1] if bool((whole == whole[0]).all()) else whole).tolist())


def _numbers(rows: Tensor) -> list[Any]:
    """Return the numbers (T, K) of every instance: one, or a list over time."""
    return [
        _rounded(row[:1])[0] if bool((row == row[0]).all()) else _rounded(row) for row in rows.t()
    ]


def _shown(episode: Episode) -> list[Curve]:
    """Return the curves of the page: beside a picture all but the observations."""
    if not episode.drawings:
        return episode.curves
    return [curve for curve in episode.curves if not curve.is_observed]


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "labels": curve.labels,
        "lines": [_rounded(line) for line in curve.values.t()],
        "leftOut": curve.left_out,
    }


def _rounded(values: Tensor) -> list[float | None]:
    """Return numbers as JSON can hold them: None where there is none."""
    finite = torch.isfinite(values).tolist()
    return [
        (int(value) if value == int(value) else float(f"{value:.{_DIGITS}g}")) if fine else None
        for value, fine in zip(values.tolist(), finite, strict=True)
    ]
