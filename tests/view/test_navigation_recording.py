"""A recording keeps of an episode what the simulator did, at ten knots a second and at its very end."""

import math

import pytest
import torch
from tensordict import TensorDict

from navrl.envs.navigation.sim.drone import Drone
from navrl.envs.navigation.sim.moving_obstacles import MovingObstacles, Triple
from navrl.envs.navigation.sim.state import Ending, NavigationState, Tally
from navrl.envs.navigation.sim.static_obstacles import FAR_M, Boxes, Cylinders, Worlds
from navrl.view.navigation_recording import Box, Cylinder, play_trips
from tests.view.trips import shipped_params

_RATES = ("success", "collision_static", "collision_moving", "outside", "timeout")
_LENGTHS = (3, 7, 12)  # decisions of 0.05 s
_OUTCOMES = ("collision_static", "success", "timeout")
_TURN = 6  # the decision at which an obstacle turns
_STARTS = torch.tensor([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0], [1.0, 1.2, 1.4]])
_SPEEDS = torch.tensor([[1.0, -1.5, 0.5], [0.0, 1.0, 0.0], [0.2, 0.0, 0.0]])


def tables():
    """Five worlds of a box and a cylinder each, and the places for what is not there."""
    world = torch.arange(5.0)[:, None]
    there, nothing = torch.ones(5, 1), torch.zeros(5, 1)
    far = FAR_M * there

    def field(value, absent):
        return torch.cat([value, absent], 1)

    cos, sin = math.cos(2.0), math.sin(2.0)
    return Worlds(
        Boxes(
            *(field(world, far), field(-world, far), field(0.5 * there, nothing)),
            *(field(0.25 * there, nothing), field(cos * there, there), field(sin * there, nothing)),
            *(field(nothing, nothing), field(3.0 * there, nothing)),
        ),
        Cylinders(
            *(field(world + 2.0, far), field(world, far), field(0.75 * there, nothing)),
            *(field(there, nothing), field(2.0 * there, nothing)),
        ),
        box_cells=None,
        cylinder_cells=None,
    )


class Clockwork:
    """Three drones on straight lines; the shield changes the commands of decisions 3 and 4 by 0.4 m/s."""

    batch_size = torch.Size([3])
    rate_names = _RATES
    episode_keys = ("return", *_RATES)

    def __init__(self):
        self.params = shipped_params("frame=frozen")
        self.clock = 0

    @property
    def worlds(self):
        return self

    @property
    def openings(self):
        class Held:
            worlds = tables()

        return Held

    @property
    def state(self):
        time_s = 0.05 * self.clock
        time = torch.full((3,), float(self.clock))
        shielded = 0.4 * float(min(max(self.clock - 2, 0), 2))
        over = torch.tensor([self.clock >= length for length in _LENGTHS])
        first, second, _ = torch.eye(3, dtype=torch.bool)
        zero = torch.zeros(3)
        return NavigationState(
            key=None, decision=time, world=torch.tensor([3, 1, 3], dtype=torch.int32), stage=zero,
            start=_STARTS, goal=_STARTS + torch.tensor([[3.0], [4.0], [0.0]]),
            drone=Drone(_STARTS + time_s * _SPEEDS, _SPEEDS, ()),
            obstacles=self.obstacles(),
            static_gap_m=zero + 2.0 + time_s,
            scans=torch.full((1, 144, 3), 2.0 + time_s), pending=None, factors=None,
            tally=Tally(zero + 0.35, zero, zero, zero, zero, zero + shielded),
            ending=Ending(over & second, over & first, over & ~over, over & ~over, over),
        )  # fmt: skip

    def obstacles(self):
        """One that turns, one that always follows the drone 0.9 m behind, and others far away."""
        place = torch.full((3, 80, 3), FAR_M)
        time_s, turn_s = 0.05 * self.clock, 0.05 * _TURN
        place[0, 7] = 1.0 + 1.2 * min(time_s, turn_s)
        place[1, 7] = 8.0 + 0.7 * max(time_s - turn_s, 0.0)
        place[2, 7] = 3.0
        place[:, 40] = _STARTS + time_s * _SPEEDS + torch.tensor([[0.9], [0.0], [0.0]])
        place[:2, 60] = 70.0
        still = Triple(*torch.zeros(3, 80, 3))
        return MovingObstacles(Triple(*place), still, still, still)

    def reset(self):
        return TensorDict({"done": torch.zeros(3, 1, dtype=torch.bool)}, batch_size=[3])

    def step(self, tensordict):
        self.clock += 1
        done = torch.tensor([[self.clock >= length] for length in _LENGTHS])
        ended = [[0.0, *(float(name == own) for name in _RATES)] for own in _OUTCOMES]
        episode = torch.tensor(ended) if bool(done.any()) else torch.zeros(3, 6)
        after = TensorDict({"done": done, "episode": episode}, batch_size=[3])
        return tensordict.set("next", after)


@pytest.fixture(scope="module")
def recorded():
    return play_trips(Clockwork(), lambda tensordict: tensordict, first=20)


def test_knots_are_every_tenth_of_a_second_and_at_the_end(recorded):
    decisions = [[round(time_s / 0.05) for time_s in trip.time_s] for trip in recorded.trips]
    assert decisions == [[0, 2, 3], [0, 2, 4, 6, 7], [0, 2, 4, 6, 8, 10, 12]]
    for env, trip in enumerate(recorded.trips):
        assert trip.number == 20 + env
        assert trip.start == pytest.approx(tuple(_STARTS[:, env].tolist()))
        for time_s, position, velocity in zip(
            trip.time_s, trip.position_m, trip.velocity_mps, strict=True
        ):
            expected = (_STARTS + time_s * _SPEEDS)[:, env].tolist()
            assert position == pytest.approx(expected, abs=1e-5)
            assert velocity == pytest.approx(_SPEEDS[:, env].tolist())
        assert trip.beam0_rad == pytest.approx([math.atan2(4.0, 3.0)] * len(trip.time_s))
        assert trip.ranges_m.shape == (len(trip.time_s), 36, 4)
        assert trip.ranges_m[-1].mean() == pytest.approx(2.0 + trip.time_s[-1], abs=1e-5)


def test_how_they_ended(recorded):
    assert [trip.outcome for trip in recorded.trips] == list(_OUTCOMES)
    assert [trip.ended_by for trip in recorded.trips] == list(_OUTCOMES)
    assert [trip.reached_s for trip in recorded.trips] == [None, pytest.approx(0.35), None]


def test_what_the_shield_changed_is_a_mean_over_the_decisions_between_two_knots(recorded):
    first, second, third = (trip.changed_mps for trip in recorded.trips)
    assert first == pytest.approx([0.0, 0.0, 0.4])  # decision 3
    assert second == pytest.approx([0.0, 0.0, 0.4, 0.0, 0.0])  # decisions 3 and 4
    assert third == pytest.approx([0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0])


def test_clearance_is_to_whatever_is_nearest(recorded):
    radius_m = 0.125  # obstacle 40 is the first of the narrowest columns
    for trip in recorded.trips:
        assert trip.clearance_m == pytest.approx([0.9 - radius_m] * len(trip.time_s), abs=1e-5)


def test_what_moves_has_knots_where_it_turns_and_is_left_out_far_away(recorded):
    turning, following = recorded.trips[2].movers
    assert (turning.which, following.which) == (7, 40)
    assert turning.time_s == pytest.approx([0.0, 0.3, 0.6])
    assert turning.x_m == pytest.approx([1.0, 1.36, 1.36])
    assert turning.y_m == pytest.approx([8.0, 8.0, 8.21])
    assert following.time_s == pytest.approx([0.0, 0.6])
    assert recorded.trips[0].movers[0].time_s == pytest.approx([0.0, 0.15])


def test_only_the_worlds_that_were_flown_in_are_kept(recorded):
    assert [trip.world for trip in recorded.trips] == [1, 0, 1]
    for number, landscape in zip((1.0, 3.0), recorded.landscapes, strict=True):
        assert landscape.boxes == [
            pytest.approx(Box(number, -number, 0.5, 0.25, 2.0, 0.0, 3.0), abs=1e-6)
        ]
        assert landscape.cylinders == [Cylinder(number + 2.0, number, 0.75, 1.0, 2.0)]
