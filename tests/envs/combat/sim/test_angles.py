"""Angles by arithmetic: right to float32, even, and the same in any batch."""

import math

import pytest
import torch

from navrl.envs.combat.sim.geometry import angle_rad


def test_it_is_the_angle_of_the_direction_at_any_length():
    angles = [math.pi * step / 720 for step in range(721)]
    for length in (1e-3, 1.0, 4e4):
        cos = torch.tensor([length * math.cos(angle) for angle in angles])
        sin = torch.tensor([length * math.sin(angle) for angle in angles])
        assert angle_rad(cos, sin).tolist() == pytest.approx(angles, abs=5e-7)
        assert torch.equal(angle_rad(cos, -sin), angle_rad(cos, sin))


def test_the_edges():
    cos = torch.tensor([1.0, 0.0, -1.0, -1.0, 1.0, 0.0, 3.0])
    sin = torch.tensor([0.0, 2.0, 0.0, -0.0, -0.0, 0.0, -3.0])
    expected = [0.0, math.pi / 2, math.pi, math.pi, 0.0, 0.0, math.pi / 4]
    assert angle_rad(cos, sin).tolist() == pytest.approx(expected, abs=3e-7)


def test_a_row_does_not_depend_on_its_batch():
    generator = torch.Generator().manual_seed(0)
    cos, sin = torch.randn(2, 101, generator=generator)
    whole = angle_rad(cos, sin)
    for rows in (slice(0, 1), slice(3, 10), slice(100, 101)):
        assert torch.equal(angle_rad(cos[rows].clone(), sin[rows].clone()), whole[rows])
