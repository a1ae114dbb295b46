"""The laws of the fight that no rule may break: no direction, side, number or dead aircraft is special."""

from functools import partial

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from navrl.envs.combat.observations.ego import Ego
from navrl.envs.combat.observations.entities import Entities
from navrl.envs.combat.observations.legacy import Dict10
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import (
    Events,
    decided,
    disengaged,
    enemies_of,
    timed_out,
    winner_sign,
)
from tests.envs.combat.sim.duels import env_rows, shipped_params
from tests.envs.combat.sim.fights import (
    IMAGES,
    SEEDS,
    Draws,
    assert_same_bits,
    drawn_fights,
    drawn_orders,
    few,
    halves,
    renumbered,
    renumbered_orders,
    rules,
    side_by_side,
    where,
)

FIGHTS, DECISIONS, OBSERVED = 24, 9, (0, 5)
ENDS = (decided, disengaged, timed_out)
EGO = Ego(spacetime=False)


@few
@given(rules(), SEEDS)
def test_images_of_a_fight_are_fought_alike_to_the_bit(params, seed):
    draws = Draws(seed, FIGHTS)
    first = drawn_fights(params, draws)
    state = side_by_side([image.state(params, first) for image in IMAGES])
    for _ in range(DECISIONS):
        chosen = drawn_orders(params, first, draws)
        orders = side_by_side([image.action(params, chosen) for image in IMAGES])
        state, events = advance(params, state, orders)
        first, happened = (env_rows(tree, range(FIGHTS)) for tree in (state, events))
        assert_same_bits(state, side_by_side([image.state(params, first) for image in IMAGES]))
        flags = [Events(*(image.rows(params, row) for row in happened)) for image in IMAGES]
        assert_same_bits(events, side_by_side(flags))
        for end in ENDS:
            assert torch.equal(end(params, state), end(params, first).repeat(len(IMAGES)))
        for team in (0, 1):
            expected = [winner_sign(params, first, team ^ image.exchanged) for image in IMAGES]
            assert torch.equal(winner_sign(params, state, team), torch.cat(expected))


def test_the_drawn_fights_are_real_ones():
    """All that the laws are about happens: launches, hits, deaths, misses, and ends of every kind."""
    params = shipped_params(team_size=2, tick_s=0.25, disengage_range_m=30e3)
    draws = Draws(0, 20 * FIGHTS)
    state, seen = drawn_fights(params, draws), torch.zeros(5)
    for _ in range(DECISIONS):
        state, events = advance(params, state, drawn_orders(params, state, draws))
        seen += torch.tensor([float(flags.sum()) for flags in events])
    assert (seen > FIGHTS).all()
    assert all(end(params, state).sum() > 5 for end in ENDS)
    results = winner_sign(params, state, 0)[decided(params, state)]
    assert all((results == sign).sum() > 5 for sign in (-1.0, 1.0))


# ---- the dead, and what never was ----------------------------------------------------------------


def spoiled(params, state, draws):
    """Return the state with anything in place of the dead and of missiles that are not in the air."""
    wild = drawn_fights(params, draws)
    motion = pytree.tree_map(lambda field: 1e3 * field, wild.aircraft.motion)
    craft = wild.aircraft._replace(motion=motion, alive=state.aircraft.alive)
    flying = wild.missiles._replace(active=state.missiles.active)
    return state._replace(
        aircraft=where(state.aircraft.alive, state.aircraft, craft),
        missiles=where(state.missiles.active, state.missiles, flying),
    )


def assert_same_living(found, expected):
    """The living and the missiles in the air are the same to the bit."""
    alive, active = expected.aircraft.alive, expected.missiles.active
    assert_same_bits((found.aircraft.alive, found.missiles.active), (alive, active))
    assert_same_bits(found.aircraft, expected.aircraft, alive)
    assert_same_bits(found.missiles, expected.missiles, active)


@few
@given(rules(), SEEDS)
def test_the_dead_and_missiles_that_never_were_change_no_bit(params, seed):
    """Neither of what follows nor of what is observed, while the observer and an enemy live."""
    draws = Draws(seed, 4 * FIGHTS)
    state = drawn_fights(params, draws)
    kinds = EGO, Entities(team_size=params.team_size), Dict10()
    for number in range(DECISIONS):
        other, alive = spoiled(params, state, draws), state.aircraft.alive
        for me in range(2 * params.team_size) if number in OBSERVED else ():
            sees = alive[me] & alive[enemies_of(params, me)].any(0)
            for kind in kinds:
                seen = [[*kind.rows(params, each, me).values()] for each in (other, state)]
                assert_same_bits(*seen, sees)
        orders = drawn_orders(params, state, draws)
        others = where(alive, orders, drawn_orders(params, state, draws))
        both, events = advance(params, side_by_side([state, other]), side_by_side([orders, others]))
        state, other = halves(both)
        assert_same_living(other, state)
        assert_same_bits(*halves(events))
        for question in (*ENDS, partial(winner_sign, team=0)):
            assert torch.equal(question(params, state), question(params, other))


# ---- a duel among others -------------------------------------------------------------------------


def among(duel, wild, seats, *, alive):
    """Return the fights `wild`, their aircraft inert, dead or alive, with those of the duel in two seats."""
    put = lambda field, rows: field.index_copy(0, torch.tensor(seats), rows)  # noqa: E731
    craft, flying = wild.aircraft, wild.missiles
    inert = craft._replace(
        alive=torch.full_like(craft.alive, alive), rounds=torch.zeros_like(craft.rounds)
    )
    idle = flying._replace(active=torch.zeros_like(flying.active))
    return duel._replace(
        aircraft=pytree.tree_map(put, inert, duel.aircraft),
        missiles=pytree.tree_map(put, idle, named(duel, seats).missiles),
    )


def named(duel, seats):
    """Return the duel with missiles that name their targets by these seats."""
    target = torch.tensor(seats, dtype=torch.int32)[duel.missiles.target.long()]
    return duel._replace(missiles=duel.missiles._replace(target=target))


def in_seats(tree, seats):
    """Return the rows of these aircraft."""
    return pytree.tree_map(lambda field: field[seats], tree)


@few
@given(rules(team_size=1), st.sampled_from([2, 3, 8]), st.integers(0, 63), st.booleans(), SEEDS)
def test_a_duel_in_any_seats_is_a_duel_to_the_bit(params, size, place, alive, seed):
    """The others are dead, or alive, far away and without missiles; then only until one of the two dies."""
    crowd, seats = params._replace(team_size=size), [place // 8 % size, size + place % size]
    far_m = torch.tensor([-4e5] * size + [4e5] * size).unsqueeze(-1)
    draws = Draws(seed, 2 * FIGHTS)
    duel = drawn_fights(params, draws)
    for _ in range(DECISIONS):
        wild = drawn_fights(crowd, draws)
        motion = wild.aircraft.motion
        away = wild.aircraft._replace(motion=motion._replace(x_m=motion.x_m + far_m))
        fights = among(duel, wild._replace(aircraft=away), seats, alive=alive)
        orders, anything = (drawn_orders(params, duel, draws), drawn_orders(crowd, fights, draws))
        target = torch.tensor([[seats[1] - size], [seats[0]]], dtype=torch.int32)
        asked = orders._replace(target=torch.where(orders.target < 0, orders.target, target))
        put = lambda field, rows: field.index_copy(0, torch.tensor(seats), rows)  # noqa: E731
        sees = duel.aircraft.alive.all(0)
        alone = [EGO.rows(params, duel, me)["ego"] for me in (0, 1)]
        assert_same_bits([EGO.rows(crowd, fights, me)["ego"] for me in seats], alone, sees)
        duel, events = advance(params, duel, orders)
        fights, happened = advance(crowd, fights, pytree.tree_map(put, anything, asked))
        same = duel.aircraft.alive.all(0) if alive else torch.ones_like(sees)
        found, expected = in_seats((fights[:2], happened), seats), (named(duel, seats)[:2], events)
        assert_same_bits(found, expected, same)
        for question in (*ENDS, partial(winner_sign, team=0)):
            assert torch.equal(question(crowd, fights)[same], question(params, duel)[same])


# ---- numbers of the aircraft ---------------------------------------------------------------------


def others_of(me):
    """Return the mates and then the enemies of one of six, as they are observed."""
    first = me // 3 * 3
    mates = [mate for mate in range(first, first + 3) if mate != me]
    return [*mates, *range(3 - first, 6 - first)]


@few
@given(rules(team_size=3), st.permutations(range(3)), st.permutations(range(3, 6)), SEEDS)
def test_the_numbers_of_mates_and_of_enemies_are_only_numbers(params, red, blue, seed):
    """To the bit where nothing ties: of enemies equally near the first one counts, and so of missiles."""
    draws, order = Draws(seed, 4 * FIGHTS), [*red, *blue]
    state, kind = drawn_fights(params, draws, ties=False), Entities(team_size=3)
    other = renumbered(state, order)
    for number in range(DECISIONS):
        for place, me in enumerate(order) if number in OBSERVED else ():
            rows = [others_of(me).index(order[each]) for each in others_of(place)]
            found, seen = kind.rows(params, other, place), kind.rows(params, state, me)
            enemy = state.aircraft.alive[enemies_of(params, me)].any(0)
            threats = (state.missiles.active & (state.missiles.target == me)).sum((0, 1))
            assert_same_bits([found["ego"]], [seen["ego"]], enemy & (threats < 2))
            assert torch.equal(found["entities"], seen["entities"][rows])
            assert torch.equal(found["entities_mask"], seen["entities_mask"][rows])
        orders = drawn_orders(params, state, draws)
        state, events = advance(params, state, orders)
        other, happened = advance(params, other, renumbered_orders(orders, order))
        assert_same_bits(other, renumbered(state, order))
        assert_same_bits(happened, in_seats(events, order))


# ---- what is kept and what only falls ------------------------------------------------------------


@few
@given(rules(), SEEDS)
def test_no_energy_comes_from_nowhere_and_nothing_is_lost_but_by_an_event(params, seed):
    """Speeds without thrust fall, none rises beyond that of its thrust; racks and lives change by events."""
    draws = Draws(seed, 4 * FIGHTS)
    state = drawn_fights(params, draws)
    for _ in range(DECISIONS):
        after, events = advance(params, state, drawn_orders(params, state, draws))
        craft, flying = after.aircraft, after.missiles
        assert torch.equal(state.aircraft.rounds - craft.rounds, events.launched.int())
        assert torch.equal(state.aircraft.alive & ~craft.alive, events.killed)
        assert not (craft.alive & ~state.aircraft.alive).any()
        assert int(events.killed.sum()) == 0 or events.hit.any()
        # In place of a missile of age 0 a recycled channel may hold another one by now, of the same age.
        age = state.missiles.age_ticks
        flown = state.missiles.active & (age > 0) & (flying.age_ticks == age + params.ticks)
        coasted = flown & (state.missiles.age_ticks >= params.burn_ticks)
        assert (flying.motion.speed_mps < state.missiles.motion.speed_mps)[coasted].all()
        parts = (
            (params.fighter, state.aircraft.motion, craft.motion, state.aircraft.alive),
            (params.missile, state.missiles.motion, flying.motion, flown),
        )
        for airframe, start, end, counts in parts:
            top_mps = (airframe.thrust_mps2 / airframe.drag) ** 0.5
            fastest = start.speed_mps.clamp_min(top_mps)
            assert (end.speed_mps <= fastest * (1.0 + 1e-6))[counts].all()
            way_m = torch.hypot(end.x_m - start.x_m, end.y_m - start.y_m)
            # A coordinate of 40 km is rounded to 4 mm, and so is each of the steps.
            assert (way_m <= fastest * params.step_s + 0.01 * params.ticks)[counts].all()
        state = after
