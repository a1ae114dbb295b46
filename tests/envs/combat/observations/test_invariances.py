"""What an aircraft observes of the images of a fight, and of a fight that is turned and moved."""

import math

import pytest
import torch

from tests.envs.combat.observations.pictures import in_float32, random_state, turned
from tests.envs.combat.observations.test_kinds import EXCHANGED, INVARIANT, NEGATED, prepared
from tests.envs.combat.sim.fights import IMAGES, Draws, drawn_fights, side_by_side

FIGHTS = 60


def reflected(leaf, rows):
    """Return the rows of the mirror image: sines change their signs, left and right their places."""
    rows = rows.clone()
    if leaf in NEGATED:
        rows[..., NEGATED[leaf], :] *= -1.0
    for left, right in EXCHANGED if leaf == "ego" and len(rows) > EXCHANGED[0][0] else ():
        rows[[left, right]] = rows[[right, left]]
    return rows


@pytest.mark.parametrize("name", INVARIANT)
def test_images_of_a_fight_are_observed_alike_to_the_bit(name):
    """By who flies the same part in them: sides exchanged too, and where bearings are 0 or pi."""
    observation, params, everybody = prepared(name)
    state = drawn_fights(params, Draws(4, FIGHTS))
    images = side_by_side([image.state(params, state) for image in IMAGES])
    seen = [observation.rows(params, images, me) for me in everybody]
    sided = 0
    for number, image in enumerate(IMAGES):
        envs = slice(number * FIGHTS, (number + 1) * FIGHTS)
        for me in everybody:
            found = seen[image.seat(params, me)]
            for leaf, rows in seen[me].items():
                expected = rows[..., :FIGHTS]
                if image.hand < 0.0:
                    expected = reflected(leaf, expected)
                    sided += int((expected != rows[..., :FIGHTS]).sum())
                assert torch.equal(found[leaf][..., envs], expected), (image, me, leaf)
    assert sided > FIGHTS


@pytest.mark.parametrize("name", INVARIANT)
def test_in_float32_a_turned_fight_looks_the_same_but_for_the_rounding_of_places(name):
    """A coordinate below 65.5 km is stored within 2 mm, so ways between places change by up to 11.3 mm.

    Bearings and the logarithm of the range then change by at most that over the range; the row of the
    line-of-sight rate, ten times v / r^2 of it, counts most. Ranges below 1 km are left out.
    """
    observation, params, everybody = prepared(name)
    exact = random_state(params)
    state, other = in_float32(exact), in_float32(turned(exact))
    x, y = exact.aircraft.motion.x_m, exact.aircraft.motion.y_m
    apart = torch.hypot(x.unsqueeze(0) - x.unsqueeze(1), y.unsqueeze(0) - y.unsqueeze(1))
    shots = exact.missiles.motion
    to_shots = torch.hypot(x[:, None, None] - shots.x_m, y[:, None, None] - shots.y_m)
    near = (apart + 1e9 * torch.eye(len(x)).unsqueeze(-1)).amin((0, 1)) < 1e3
    far = ~near & (to_shots.amin((0, 1, 2)) > 1e3)
    assert far.float().mean() > 0.3
    moved_m = 2.0 * 2.0 * math.sqrt(2.0) * 0.002
    bound = moved_m / 1e3 * (1.0 + 10.0 * 2000.0 / 1e3) + 1e-5
    for me in everybody:
        found = observation.rows(params, other, me)
        for leaf, rows in observation.rows(params, state, me).items():
            error = rows.float() - found[leaf].float()
            assert float(error[..., far].abs().max()) < bound
