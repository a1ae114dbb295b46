"""Episodes put together by hand: a drone on a circle around a goal, and numbers over time."""

import math

import torch

from navrl.envs.core.shapes import Arrow, Circle, Line, Polygon, Text
from navrl.view.world_recording import Curve, Drawing, Episode

STEPS, RADIUS = 40, 3.0


def place(step):
    """Return where the drone is."""
    angle = math.tau * step / STEPS
    return RADIUS * math.cos(angle), RADIUS * math.sin(angle)


def drawing(shape, points, *, visible=None, radius=0.0, colour=0):
    """Points are (T, 2, P, K) or, of what stands, (2, P, K)."""
    points = torch.as_tensor(points, dtype=torch.float32)
    points = points if points.ndim == 4 else points.expand(STEPS + 1, *points.shape)
    ones = torch.ones(STEPS + 1, points.shape[-1])
    return Drawing(
        shape,
        points,
        radius * ones,
        colour * ones,
        ones if visible is None else visible,
    )


def drawings():
    """A drone, an arrow to it that is hidden in the second half, a goal, a triangle and two names."""
    here = (0.0, 0.0)
    way = torch.tensor([place(step) for step in range(STEPS + 1)])  # (T, 2)
    tail = torch.zeros_like(way)
    first = (torch.arange(STEPS + 1) < STEPS / 2).float().unsqueeze(1)
    corners = torch.tensor([[-4.0, 4.0, 4.0], [-4.0, -4.0, 4.0]]).unsqueeze(-1)
    pair = torch.tensor([[[-1.0, 1.0]], [[2.0, 2.0]]])  # (2, P = 1, K = 2)
    return [
        drawing(Polygon(here, colour="quiet", filled=False), corners),
        drawing(Circle(here, colour="goal", label="goal"), torch.zeros(2, 1, 1), radius=0.5),
        drawing(Line(here), torch.stack([tail, way], 2).unsqueeze(-1)),
        drawing(
            Arrow(here, here, colour="danger"),
            torch.stack([tail, way], 2).unsqueeze(-1),
            visible=first,
        ),
        drawing(Circle(here, colour=3, trail=True), way.reshape(-1, 2, 1, 1), radius=0.2, colour=3),
        drawing(Text(here, ["left", "right"]), pair),
    ]


def episode(*, pictured=True, steps=STEPS):
    """An episode with a picture, or with numbers alone."""
    step = torch.arange(steps + 1.0)
    reward = torch.cat([torch.tensor([math.nan]), 0.5 * step[1:]])
    wave = torch.sin(step / 5.0)
    return Episode(
        steps=steps,
        ending="terminated",
        statistics={"return": 410.0, "length": float(steps), "success": 1.0},
        rates=("success",),
        happened={"success": steps // 2},
        drawings=drawings() if pictured else [],
        curves=[
            Curve("reward", [""], reward.unsqueeze(1)),
            Curve("return", [""], (0.25 * step * (step + 1)).unsqueeze(1)),
            Curve("observation", ["0", "1"], torch.stack([wave, -wave], 1), 10, is_observed=True),
        ],
    )
