"""N against N: pairs that do not meet are duels, shots fly at whom they were fired at, the dead stay dead."""

import itertools
import math

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import decided, winner_sign
from tests.envs.combat.sim.duels import (
    leaves,
    opening,
    orders,
    play,
    put_missile,
    same_bits,
    shipped_params,
)

FAR_M = 4e5  # nothing flies that far


def rows(state, pick):
    """The aircraft and missiles `pick` of a state, without whom they aim at, which is a number."""
    aircraft = [field[pick] for field in leaves(state.aircraft)]
    flying = state.missiles
    missiles = [*flying.motion, flying.active, flying.age_ticks, *flying.line_of_sight_rad]
    return [*aircraft, *(field[pick] for field in missiles)]


@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize("place", ["first", "last"])
def test_far_pairs_that_hold_fire_change_no_bit_of_a_duel(size, place):
    changes = {"rudder_rate_per_s": 0.5, "channels": 2, "resolve_in_flight": True}
    duel, crowd = shipped_params(**changes), shipped_params(team_size=size, **changes)
    mine = 0 if place == "first" else size - 1
    pair = [mine, size + mine]
    fighters = [(0.0, 0.0, 20.0, 300.0)], [(15e3, 0.0, 180.0, 350.0)]
    bystanders = [[(-FAR_M, 9e3 * n, 0.0, 300.0)] for n in range(size - 1)]
    bystanders += [[(FAR_M, 9e3 * n, 0.0, 300.0)] for n in range(size - 1)]
    table = bystanders
    table.insert(mine, fighters[0])
    table.insert(size + mine, fighters[1])
    one, many = opening(duel, *fighters), opening(crowd, *table)
    for number in range(12):
        rudder, fire = float(number % 3 - 1), number == 1
        one, events = advance(duel, one, orders(one, [rudder, -rudder], fire=fire))
        rudders, fires = (
            torch.linspace(-1.0, 1.0, 2 * size),
            torch.zeros(2 * size, dtype=torch.bool),
        )
        rudders[pair], fires[pair] = torch.tensor([rudder, -rudder]), fire
        many, others = advance(crowd, many, orders(many, rudders, fire=fires))
        assert all(
            torch.equal(a, b) for a, b in zip(rows(one, [0, 1]), rows(many, pair), strict=True)
        )
        for name, flags in events._asdict().items():
            expected = torch.zeros_like(getattr(others, name))
            expected[pair] = flags
            assert torch.equal(getattr(others, name), expected), name
    assert one.missiles.active[:, 0].all()


def grid(params, spread_m=4e3):
    """Two columns of three, 12 km apart, that fly at each other."""
    red = [[(0.0, spread_m * n, 0.0, 300.0)] for n in (-1, 0, 1)]
    blue = [[(12e3, spread_m * n, 180.0, 300.0)] for n in (-1, 0, 1)]
    return opening(params, *red, *blue)


@pytest.mark.parametrize(("shooter", "place"), list(itertools.product((0, 5), range(3))))
def test_a_shot_flies_at_whom_it_was_fired_at(shooter, place):
    params = shipped_params(team_size=3)
    state = grid(params)
    target = place + (3 if shooter < 3 else 0)
    fire = [me == shooter for me in range(6)]
    requested = torch.full((6, 1), -1, dtype=torch.int32)
    requested[shooter] = place
    action = orders(state, fire=fire)._replace(target=requested)
    state, events = advance(params, state, action)
    assert events.launched[:, 0].tolist() == fire
    _, events = play(params, state, 20)
    killed = torch.stack([e.killed[:, 0] for e in events]).any(0).tolist()
    assert killed == [me == target for me in range(6)]
    hit = torch.stack([e.hit[:, 0] for e in events]).any(0).tolist()
    assert hit == fire


@pytest.mark.parametrize("requested", [None, -1, 0, 1])
def test_who_names_nobody_or_the_dead_fires_at_the_nearest_of_the_living(requested):
    params = shipped_params(team_size=3)
    # Of aircraft 0 the nearest enemies are 3, then 4, then 5; 3 and 4 are dead.
    state = grid(params)
    alive = torch.tensor([[True], [True], [True], [False], [False], [True]])
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    action = orders(state, fire=[True, False, False, False, False, True])
    if requested is not None:
        action = action._replace(target=torch.full((6, 1), requested, dtype=torch.int32))
    after, _ = advance(params, state, action)
    assert after.missiles.target[0, 0].item() == 5
    # The last aircraft of the other side names 0 or 1 too, which live, or the nearest, which is 2.
    expected = 2 if requested in (None, -1) else requested
    assert after.missiles.target[5, 0].item() == expected


def test_hits_on_several_in_one_tick_all_count():
    params = shipped_params(team_size=3, decision_s=0.1)
    state = grid(params)
    # 0 hits 3, 1 and 2 both hit 4, and 3, which dies, hits 1 in the same tick.
    for carrier, target in ((0, 3), (1, 4), (2, 4), (3, 1)):
        x_m, y_m, *_ = (field[target, 0].item() for field in state.aircraft.motion)
        at = (x_m + 60.0, y_m, 0.0, 500.0)
        state = put_missile(state, carrier, target=target, at=at)
    after, events = advance(params, state, orders(state))
    assert events.hit[:, 0].tolist() == [True, True, True, True, False, False]
    assert events.killed[:, 0].tolist() == [False, True, False, True, True, False]
    assert not events.missed.any()
    assert not events.defeated.any()
    assert not after.missiles.active.any()
    assert after.aircraft.alive[:, 0].tolist() == [True, False, True, False, False, True]


@pytest.mark.parametrize("retarget", [False, True])
def test_whom_a_missile_missed_is_settled_when_it_ends(retarget):
    # At 12 s of age a missile ends: that of 0 in the second tick, while its prey, 2, is alive. The one of 1
    # hits 2 later in the same decision, after (800 - 100) / 900 s or so.
    params = shipped_params(team_size=2, retarget=retarget, max_missile_age_s=12.0)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 4e3, 0.0, 300.0)]
    blue = [(12e3, 0.0, 90.0, 300.0)], [(30e3, 9e3, 90.0, 300.0)]
    state = put_missile(
        opening(params, *red, *blue), 0, target=2, at=(4e3, 0.0, 0.0, 900.0), age_ticks=118
    )
    state = put_missile(state, 1, target=2, at=(11.2e3, 150.0, 0.0, 900.0), age_ticks=80)
    after, events = advance(params, state, orders(state))
    assert events.killed[:, 0].tolist() == [False, False, True, False]
    assert events.missed[:, 0].tolist() == [True, False, False, False]
    assert events.defeated[:, 0].tolist() == [False, False, True, False]
    assert after.missiles.target[:2, 0, 0].tolist() == [2, 2]


def test_the_fight_goes_on_until_a_whole_side_is_dead():
    params = shipped_params(team_size=3)
    state = grid(params)
    for alive in itertools.product([False, True], repeat=6):
        flags = torch.tensor(alive).unsqueeze(-1)
        now = state._replace(aircraft=state.aircraft._replace(alive=flags))
        red, blue = any(alive[:3]), any(alive[3:])
        assert decided(params, now).item() == (not (red and blue))
        assert winner_sign(params, now, 0).item() == float(red and not blue) - float(
            blue and not red
        )


def test_the_numbers_of_the_mates_are_only_numbers():
    params = shipped_params(team_size=3)
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand(4, 6, 32, generator=generator)
    heading = draw[2] * 2.0 * math.pi
    motion = Motion(
        18e3 * draw[0], 18e3 * draw[1], heading.cos(), heading.sin(), 200.0 + 250.0 * draw[3]
    )
    order = [2, 0, 1, 4, 5, 3]
    place = torch.tensor([1, 2, 0, 2, 0, 1])  # where an aircraft of the other side has gone
    state = opening(params, *[[(0.0, 0.0, 0.0, 1.0)] * 32] * 6)
    state = state._replace(aircraft=state.aircraft._replace(motion=motion))
    turned = Motion(*(field[order] for field in motion))
    other = state._replace(aircraft=state.aircraft._replace(motion=turned))
    happened = 0
    for _ in range(40):
        rudder = torch.randint(-1, 2, (6, 32), generator=generator)
        fire = torch.rand(6, 32, generator=generator) < 0.2
        requested = torch.randint(0, 3, (6, 32), generator=generator, dtype=torch.int32)
        renamed = torch.stack(
            [
                place[:3][requested[me].long()] if me > 2 else place[3:][requested[me].long()]
                for me in range(6)
            ]
        ).int()
        state, events = advance(
            params, state, orders(state, rudder, fire=fire)._replace(target=requested)
        )
        action = orders(other, rudder[order], fire=fire[order])._replace(target=renamed[order])
        other, others = advance(params, other, action)
        assert all(torch.equal(a[order], b) for a, b in zip(events, others, strict=True))
        happened += int(events.killed.sum())
    assert same_bits(
        Motion(*(field[order] for field in state.aircraft.motion)), other.aircraft.motion
    )
    assert happened > 32
