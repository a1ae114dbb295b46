"""The ego-centric observation: what it is, and what turning, moving or mirroring does to it."""

import math

import pytest
import torch

from navrl.config import build
from navrl.envs.ego import EGO_SIZE, ego_rows
from navrl.sims.combat_state import Aircraft, CombatState, Missiles
from navrl.sims.flight import Motion
from tests.envs.conftest import configuration

OWN_MISSILE, INCOMING_MISSILE = slice(16, 24), slice(24, 32)
# previous rudder, sin bearing, sin aspect, line-of-sight rate, sines of own and incoming missile
MIRRORED = [1, 8, 10, 14, 20, 28]


@pytest.fixture(params=[1, 2], ids=["1 channel", "2 channels"])
def params(request):
    return build(configuration("combat").env.sim)._replace(channels=request.param)


def random_state(params, count=200):
    """Bodies within 40 km of each other in all kinds of situations, float64."""
    generator = torch.Generator().manual_seed(0)

    def between(low, high, *shape):
        draw = torch.rand(*shape, count, generator=generator, dtype=torch.float64)
        return low + (high - low) * draw

    def motion(*shape):
        heading = between(0.0, 2.0 * math.pi, *shape)
        return Motion(
            x_m=between(-20e3, 20e3, *shape),
            y_m=between(-20e3, 20e3, *shape),
            cos_heading=heading.cos(),
            sin_heading=heading.sin(),
            speed_mps=between(150.0, 1000.0, *shape),
        )

    channels = (2, params.channels)
    enemy = torch.tensor([1, 0], dtype=torch.int32).view(2, 1, 1)
    return CombatState(
        aircraft=Aircraft(
            motion=motion(2),
            rudder=between(-1.0, 1.0, 2),
            alive=between(0.0, 1.0, 2) < 0.8,
            rounds=between(0.0, 6.99, 2).to(torch.int32),
        ),
        missiles=Missiles(
            motion=motion(*channels),
            active=between(0.0, 1.0, *channels) < 0.6,
            age_ticks=between(0.0, 800.0, *channels).to(torch.int32),
            target=enemy.expand(*channels, count),
        ),
        decision=between(0.0, 299.0).to(torch.int32),
    )


def moved(state, transform):
    """The state with every body's motion transformed."""
    aircraft = state.aircraft._replace(motion=transform(state.aircraft.motion))
    missiles = state.missiles._replace(motion=transform(state.missiles.motion))
    return state._replace(aircraft=aircraft, missiles=missiles)


def observed(params, state, me=0):
    return torch.stack(ego_rows(params, state, me))


@pytest.mark.parametrize("me", [0, 1])
def test_turning_and_moving_the_picture_changes_nothing(params, me):
    state = random_state(params)
    angle = torch.linspace(0.1, 6.2, 200, dtype=torch.float64)
    c, s = angle.cos(), angle.sin()

    def transform(motion):
        return motion._replace(
            x_m=c * motion.x_m - s * motion.y_m + 12_345.0,
            y_m=s * motion.x_m + c * motion.y_m - 6_789.0,
            cos_heading=c * motion.cos_heading - s * motion.sin_heading,
            sin_heading=s * motion.cos_heading + c * motion.sin_heading,
        )

    found, expected = observed(params, moved(state, transform), me), observed(params, state, me)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0.0)


@pytest.mark.parametrize("me", [0, 1])
def test_mirroring_the_picture_negates_the_sided_rows_only(params, me):
    state = random_state(params)
    mirrored = moved(state, lambda m: m._replace(y_m=-m.y_m, sin_heading=-m.sin_heading))
    mirrored = mirrored._replace(
        aircraft=mirrored.aircraft._replace(rudder=-mirrored.aircraft.rudder)
    )
    sign = torch.ones(EGO_SIZE, 1, dtype=torch.float64)
    sign[MIRRORED] = -1.0
    seen = observed(params, state, me)
    assert torch.equal(observed(params, mirrored, me), sign * seen)
    assert (seen[MIRRORED] != 0.0).any(1).all()


def test_no_missile_no_numbers(params):
    state = random_state(params)
    own_only = torch.zeros_like(state.missiles.active)
    own_only[0, 0] = True
    for active in (own_only, own_only.flip(0), torch.zeros_like(own_only)):
        rows = observed(params, state._replace(missiles=state.missiles._replace(active=active)))
        for block, carrier in ((OWN_MISSILE, 0), (INCOMING_MISSILE, 1)):
            flies = active[carrier].any(0)
            assert torch.equal(rows[block][0], flies.double())
            assert (rows[block][:, ~flies] == 0.0).all()
            assert not flies.any() or (rows[block][1:, flies] != 0.0).any(1).all()


def two_body_state(params, enemy_xy=(3000.0, 4000.0)):
    """Flying east from the origin at 300 m/s, the enemy west at 200 m/s, a missile of each in the air.

    The own missile is 4 km south of the enemy and flies east, the enemy's is 2.5 km south and flies
    north; both sit in channel 0.
    """

    def column(*rows):
        return torch.tensor(rows, dtype=torch.float64).unsqueeze(-1)

    def first_channel(own, other):
        rows = torch.zeros(2, params.channels, 1, dtype=torch.float64)
        rows[:, 0, 0] = torch.tensor([own, other], dtype=torch.float64)
        return rows

    x, y = enemy_xy
    return CombatState(
        aircraft=Aircraft(
            motion=Motion(
                column(0.0, x),
                column(0.0, y),
                column(1.0, -1.0),
                column(0.0, 0.0),
                column(300.0, 200.0),
            ),
            rudder=column(-0.5, 0.25),
            alive=column(1, 1).bool(),
            rounds=column(4, 6).to(torch.int32),
        ),
        missiles=Missiles(
            motion=Motion(
                first_channel(3000.0, 0.0),
                first_channel(0.0, -2500.0),
                first_channel(1.0, 0.0),
                first_channel(0.0, 1.0),
                first_channel(600.0, 500.0),
            ),
            active=first_channel(1, 1).bool(),
            age_ticks=first_channel(200, 0).to(torch.int32),
            target=first_channel(1, 0).to(torch.int32),
        ),
        decision=torch.tensor([75], dtype=torch.int32),
    )


def test_every_entry_by_hand(params):
    # A tick is 0.1 s, a full rack 6 rounds, an episode 300 decisions of 1 s, g = 9.8 m/s2.
    rows = observed(params, two_body_state(params)).squeeze(-1).tolist()
    assert rows[:6] == pytest.approx(
        [
            300 / 400,
            -0.5,
            300**2 * 0.5 / (10 * 1000 * 9.8),  # g over ten
            4 / 6,
            float(params.channels == 2),  # one of the channels is taken
            1 - 75 / 300,
        ]
    )
    assert rows[6:16] == pytest.approx(
        [
            math.log(5000 / 10_000),  # 3-4-5 triangle
            5000 / 50_000,
            4 / 5,
            3 / 5,
            0.0,
            -1.0,  # head to head
            200 / 400,
            0.6 * 500 / 1000,  # 500 m/s westwards along a line whose eastern part is 0.6
            10 * 0.8 * 500 / 5000,
            1.0,
        ]
    )
    assert rows[OWN_MISSILE] == pytest.approx(
        [1.0, 20 / 80, 600 / 1000, 4000 / 50_000, -1.0, 0.0, 0.0, 60 / 60]  # does not close: 60 s
    )
    assert rows[INCOMING_MISSILE] == pytest.approx(
        [1.0, 0.0, 500 / 1000, 2500 / 50_000, -1.0, 0.0, 500 / 1000, (2500 / 500) / 60]
    )


def test_extremes_are_clipped_to_five(params):
    near = observed(params, two_body_state(params, enemy_xy=(0.0, 3.0))).squeeze(-1)
    assert near[6].item() == -5.0  # log(3 / 10 000) = -8.1
    assert near[14].item() == 5.0  # 500 m/s across at 3 m: 10 x 167 rad/s
    far = observed(params, two_body_state(params, enemy_xy=(400_000.0, 0.0))).squeeze(-1)
    assert far[7].item() == 5.0  # 400 / 50
    assert far[6].item() == pytest.approx(math.log(40))


def test_the_dead_are_seen_as_dead(params):
    state = two_body_state(params)
    alive = torch.tensor([[True], [False]])
    rows = observed(params, state._replace(aircraft=state.aircraft._replace(alive=alive)))
    assert rows[15].item() == 0.0
