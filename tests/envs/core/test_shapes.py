"""Shapes of a picture: every way to write a place gives the same points, and mistakes are named."""

import pytest
import torch

from navrl.config.checks import ConfigError
from navrl.envs.core.shapes import Arrow, Circle, Line, Polygon, Text, batched

X, Y = torch.arange(4.0), 10.0 + torch.arange(4.0)  # of four envs


def points(shape, num_envs=4):
    """Return (2, P, K, N)."""
    return batched(shape, num_envs).points.expand(-1, -1, -1, num_envs)


@pytest.mark.parametrize(
    "place", [torch.stack([X, Y]), (X, Y), [(X, Y)], torch.stack([X, Y])[:, None]]
)
def test_a_place_of_every_env(place):
    found = points(Circle(place))
    assert found.shape == (2, 1, 1, 4)
    assert found[0].flatten().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert found[1].flatten().tolist() == [10.0, 11.0, 12.0, 13.0]


def test_numbers_are_the_same_for_all_envs():
    assert points(Circle((1.0, 2))).tolist() == [[[[1.0] * 4]], [[[2.0] * 4]]]
    assert points(Circle([(1, 2), (3, 4)]))[:, 0, :, 3].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert points(Circle((X, 0.0)))[1].unique().tolist() == [0.0]


def test_several_of_one_kind():
    places = torch.stack([torch.stack([X, Y]), torch.stack([Y, X])], 1)  # (2, K, N)
    assert torch.equal(points(Circle(places))[:, 0], places)
    assert torch.equal(points(Circle([(X, Y), (Y, X)]))[:, 0], places)


def test_points_of_lines_and_areas():
    line = points(Line([(0.0, 1.0), (X, Y), torch.stack([Y, X])]))
    assert line.shape == (2, 3, 1, 4)
    assert line[:, :, 0, 2].tolist() == [[0.0, 2.0, 12.0], [1.0, 12.0, 2.0]]
    many = points(Line([[(0, 0), (1, 1)], [(5, 0), (6, 1)]]))  # two lines of two points
    assert many[:, :, 1, 0].tolist() == [[1.0, 6.0], [1.0, 1.0]]
    tensor = torch.arange(24.0).reshape(2, 3, 4)  # (2, P, N)
    assert torch.equal(points(Polygon(tensor))[:, :, 0], tensor)
    arrow = points(Arrow((0.0, 0.0), (X, Y)))
    assert arrow[:, :, 0, 3].tolist() == [[0.0, 3.0], [0.0, 13.0]]


def test_numbers_of_instances_and_envs():
    shape = Circle([(X, Y), (Y, X)], radius=[1.0, 2.0], colour=torch.arange(4), visible=X > 1.0)
    batch = batched(shape, 4)
    assert batch.radius.tolist() == [[1.0], [2.0]]
    assert batch.colour.tolist() == [[0.0, 1.0, 2.0, 3.0]] * 2
    assert batch.visible.tolist() == [[0.0, 0.0, 1.0, 1.0]] * 2
    assert batched(Circle((X, Y), colour=3), 4).colour.tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (Circle(torch.zeros(3, 4)), r"a place of shape \(3, 4\); expected \(2, N\) or \(2, K, N\)"),
        (
            Circle(torch.zeros(2, 5)),
            "a Circle for 5 envs; expected tensors with the env axis last, of 4",
        ),
        (Circle((0.0, float("nan"))), "a Circle whose places are infinite or no numbers"),
        (Circle((X, Y), radius=torch.zeros(3, 4)), r"whose radius has the shape \(3, 4\)"),
        (Circle((X, Y), visible=[True, False]), r"whose visible has the shape \(2, 1\)"),
        (Circle((X, Y), colour="agnet"), "did you mean 'agent'"),
        (Text([(0, 0), (1, 1)], ["a"]), "a Text with 1 words at 2 places"),
        (Circle((X, torch.zeros(3))), r"x and y of a place of the shapes \(1, 4\), \(1, 3\)"),
        (Line([(X, Y), torch.zeros(2, 3)]), "the points of a Line of the shapes"),
        (Line([]), "a Line without points"),
        (Circle([]), r"a place \[\]; expected a pair"),
        ((1.0, 2.0), "a tuple; expected one of Circle, Arrow, Line, Polygon, Text"),
    ],
)
def test_what_cannot_be_drawn_is_named(shape, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        batched(shape, 4)
    assert "\n" not in str(refused.value)
    assert "change" in str(refused.value)
