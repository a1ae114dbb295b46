"""Rules of fire, missiles that give way, and the end of the fight."""

import itertools

import pytest
import torch

from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import can_fire, decided, disengaged, winner_sign
from tests.envs.combat.sim.duels import opening, orders, play, put_missile, shipped_params

FAR = [(0.0, 0.0, 0.0, 300.0)], [(200_000.0, 0.0, 0.0, 300.0)]  # nothing flies that far
NEAR = [(0.0, 0.0, 0.0, 300.0)], [(6_000.0, 0.0, 180.0, 300.0)]  # hit within nine seconds
RED = {"fire": [True, False]}  # the first aircraft holds the trigger


def when(events, name, craft):
    """The decisions in which it happened to the aircraft."""
    return [number for number, e in enumerate(events) if getattr(e, name)[craft].item()]


def rounds(states, craft=0):
    return [state.aircraft.rounds[craft].item() for state in states]


@pytest.mark.parametrize("channels", [1, 2])
def test_block_ignores_the_trigger_while_every_channel_is_taken(channels):
    # A missile lives for 4 decisions and its channel is free for the next one.
    params = shipped_params(channels=channels, channel_mode="block", max_missile_age_s=4.0)
    states, events = play(params, opening(params, *FAR), 10, **RED)
    launches = [0, 4, 8] if channels == 1 else [0, 1, 4, 5, 8, 9]
    ends = [3, 7] if channels == 1 else [3, 4, 7, 8]
    assert when(events, "launched", 0) == launches
    assert when(events, "missed", 0) == when(events, "defeated", 1) == ends
    assert rounds(states) == [6 - sum(n < state for n in launches) for state in range(11)]
    taken = [[sum(n < state <= n + 3 for n in launches)] for state in range(11)]
    assert [s.missiles.active[0].sum(0).tolist() for s in states] == taken
    ready = [
        state.aircraft.rounds[0] > 0 and taken[n][0] < channels for n, state in enumerate(states)
    ]
    assert [can_fire(params, s)[0].item() for s in states] == ready


def test_recycle_relaunches_the_only_missile_in_every_decision():
    params = shipped_params(channel_mode="recycle")
    states, events = play(params, opening(params, *FAR), 9, **RED)
    assert when(events, "launched", 0) == [0, 1, 2, 3, 4, 5]
    # Each launch but the first ends a flying missile, and its target is rid of it.
    assert when(events, "missed", 0) == when(events, "defeated", 1) == [1, 2, 3, 4, 5]
    assert when(events, "missed", 1) == when(events, "defeated", 0) == []
    assert rounds(states) == [6, 5, 4, 3, 2, 1, 0, 0, 0, 0]
    assert [can_fire(params, s)[0].item() for s in states] == [True] * 6 + [False] * 4
    assert [s.missiles.age_ticks[0, 0].item() for s in states[1:]] == [10] * 6 + [20, 30, 40]
    for before, after in itertools.pairwise(states[:7]):
        # 20 m ahead of the carrier at its speed, and one second of more thrust than drag later.
        gone_m = after.missiles.motion.x_m[0, 0] - before.aircraft.motion.x_m[0]
        speed_mps = before.aircraft.motion.speed_mps[0].item()
        assert 20.0 + speed_mps < gone_m.item() < 20.0 + speed_mps + 147.0 / 2


def test_recycle_takes_a_free_channel_first_and_then_the_oldest():
    params = shipped_params(channel_mode="recycle", channels=2, max_missile_age_s=3.0)
    state = opening(params, *FAR)
    pulls, ages, missed = [1, 1, 0, 1, 1, 1], [], []
    for pull in pulls:
        state, events = advance(params, state, orders(state, fire=[bool(pull), False]))
        on = state.missiles.active[0, :, 0].tolist()
        age = state.missiles.age_ticks[0, :, 0].tolist()
        ages.append([a if flies else None for a, flies in zip(age, on, strict=True)])
        missed.append(events.missed[0].item())
    # The first dies of age in the third decision and its channel is free in the fourth, in which the
    # second dies; in the sixth both fly and the older one gives way.
    assert ages == [[10, None], [20, 10], [None, 20], [10, None], [20, 10], [10, 20]]
    assert missed == [False, False, True, True, False, True]
    assert rounds([state]) == [1]


def test_two_missiles_of_aircraft_age_do_not_both_give_way():
    params = shipped_params(channel_mode="recycle", channels=3)
    state = opening(params, *FAR)
    for channel, age in enumerate((30, 50, 50)):
        at = (1e3 * channel, 5e3, 0.0, 500.0)
        state = put_missile(state, 0, channel=channel, target=1, at=at, age_ticks=age)
    after, _ = advance(params, state, orders(state, **RED))
    assert after.missiles.age_ticks[0, :, 0].tolist() == [40, 10, 60]


def test_a_missile_at_a_dead_aircraft_gives_way_and_nobody_has_defeated_it():
    params = shipped_params(channel_mode="recycle", team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(0.0, 3e3, 0.0, 300.0)]
    blue = [(9e4, 0.0, 0.0, 300.0)], [(9e4, 3e3, 0.0, 300.0)]
    state = put_missile(opening(params, *red, *blue), 0, target=2, at=(3e3, 0.0, 0.0, 800.0))
    alive = torch.tensor([[True], [True], [False], [True]])
    state = state._replace(aircraft=state.aircraft._replace(alive=alive))
    after, events = advance(params, state, orders(state, fire=[True, False, False, False]))
    assert events.launched[:, 0].tolist() == [True, False, False, False]
    assert events.missed[:, 0].tolist() == [True, False, False, False]
    assert not events.defeated.any()
    assert after.missiles.target[0, 0].item() == 3, "the new one flies at the living"


@pytest.mark.parametrize("pause", [1, 3])
def test_the_trigger_is_dead_for_some_decisions_after_a_launch(pause):
    params = shipped_params(cooldown_decisions=pause, channels=6)
    states, events = play(params, opening(params, *FAR), 9, **RED)
    assert when(events, "launched", 0) == list(range(0, 9, pause + 1))
    ready = [n % (pause + 1) == 0 for n in range(9)]
    assert [can_fire(params, s)[0].item() for s in states[:-1]] == ready
    assert all(can_fire(params, s)[1].item() for s in states), "the other one's trigger works"


def one_second_apart(params):
    """Both fire at each other, the second one a decision later; states and events from then on."""
    state = opening(params, *NEAR)
    state, _ = advance(params, state, orders(state, **RED))
    return play(params, state, 14, first={"fire": [False, True]})


def test_a_trade_is_a_draw_where_missiles_are_resolved():
    params = shipped_params(resolve_in_flight=True)
    states, events = one_second_apart(params)
    first, second = (when(events, "killed", craft) for craft in (1, 0))
    assert len(first) == len(second) == 1
    assert first < second
    over = [decided(params, state).item() for state in states]
    assert over == [n > second[0] for n in range(len(states))]
    assert winner_sign(params, states[-1], 0).item() == 0.0
    # Without the option the first kill decides.
    states, _ = one_second_apart(shipped_params())
    assert states[-1].aircraft.alive[:, 0].tolist() == [True, False]


def test_the_survivor_wins_when_the_last_missile_at_it_has_ended():
    params = shipped_params(resolve_in_flight=True, max_missile_age_s=9.0)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(3e3, 0.0, 180.0, 300.0)])
    state = put_missile(state, 0, target=1, at=(2e3, 0.0, 0.0, 900.0))
    # The other's missile comes from far behind: 60 ticks of its 90 are left, too few.
    state = put_missile(state, 1, target=0, at=(-30e3, 0.0, 0.0, 900.0), age_ticks=30)
    states, events = play(params, state, 9)
    assert when(events, "killed", 1) == [0]
    assert when(events, "defeated", 0) == when(events, "missed", 1) == [5]
    assert [decided(params, s).item() for s in states] == [False] * 6 + [True] * 4
    assert winner_sign(params, states[-1], 0).item() == 1.0


def test_the_survivor_does_not_fire_at_nobody():
    params = shipped_params(resolve_in_flight=True)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(3e3, 0.0, 180.0, 300.0)])
    state = put_missile(state, 0, target=1, at=(2e3, 0.0, 0.0, 900.0))
    state = put_missile(state, 1, target=0, at=(-30e3, 0.0, 0.0, 900.0))
    states, events = play(params, state, 4, first={"fire": False}, fire=True)
    assert when(events, "killed", 1) == [0]
    assert when(events, "launched", 0) == when(events, "launched", 1) == []
    assert rounds(states) == [6] * 5
    assert not decided(params, states[-1]).any()


def test_a_missile_at_the_dead_keeps_no_fight_open():
    params = shipped_params(resolve_in_flight=True, channels=2)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(3e3, 0.0, 180.0, 300.0)])
    state = put_missile(state, 0, target=1, at=(2e3, 0.0, 0.0, 900.0))
    state = put_missile(state, 0, channel=1, target=1, at=(-30e3, 0.0, 0.0, 900.0))
    states, events = play(params, state, 2)
    assert when(events, "killed", 1) == [0]
    assert [decided(params, s).item() for s in states] == [False, True, True]


def widow(params):
    """A missile of aircraft 0 whose target, aircraft 2, is dead; 3 and 4 live, 4 is nearer."""
    red = [[(0.0, 4e3 * n, 0.0, 300.0)] for n in range(3)]
    blue = [[(12e3, y_m, 90.0, 300.0)] for y_m in (0.0, 9e3, -4e3)]
    state = put_missile(opening(params, *red, *blue), 0, target=3, at=(4e3, 0.0, 0.0, 900.0))
    alive = torch.tensor([True] * 3 + [False, True, True]).unsqueeze(-1)
    return state._replace(aircraft=state.aircraft._replace(alive=alive))


def test_a_widowed_missile_hits_the_nearest_living_enemy():
    params = shipped_params(team_size=3, retarget=True)
    states, events = play(params, widow(params), 15)
    (hit,) = when(events, "hit", 0)
    assert when(events, "killed", 5) == [hit]
    assert not any(e.killed[[0, 1, 2, 3, 4]].any() for e in events)
    assert all(s.missiles.target[0, 0].item() == 5 for s in states[1 : hit + 1])


def test_who_outlives_a_retargeted_missile_has_defeated_it_and_not_the_dead():
    params = shipped_params(team_size=3, retarget=True, max_missile_age_s=2.0)
    # It turns and ends within one decision, and within the second one.
    for age_ticks, end in ((15, 0), (5, 1)):
        state = widow(params)
        flying = state.missiles._replace(
            age_ticks=torch.full_like(state.missiles.age_ticks, age_ticks)
        )
        _, events = play(params, state._replace(missiles=flying), 3)
        assert when(events, "missed", 0) == [end]
        assert when(events, "defeated", 5) == [end]
        assert not any(e.defeated[:5].any() for e in events)


def test_nobody_has_defeated_a_missile_whose_target_is_dead():
    params = shipped_params(team_size=3, max_missile_age_s=2.0)
    _, events = play(params, widow(params), 3)
    assert when(events, "missed", 0) == [1]
    assert not any(e.defeated.any() for e in events)


def test_nobody_within_range_and_nothing_in_the_air_is_disengaged():
    params = shipped_params(disengage_range_m=120e3)
    apart = opening(
        params, [(0.0, 0.0, 0.0, 300.0)] * 2, [(119.9e3, 0.0, 0.0, 300.0), (90e3, 8e4, 0.0, 300.0)]
    )
    assert disengaged(params, apart).tolist() == [False, True]  # 119.9 and 120.4 km
    missile = put_missile(apart, 0, target=1, at=(0.0, 0.0, 0.0, 900.0))
    assert not disengaged(params, missile).any()
    assert not disengaged(shipped_params(), apart).any()


def test_the_dead_are_near_to_nobody():
    params = shipped_params(disengage_range_m=120e3, team_size=2)
    red = [(0.0, 0.0, 0.0, 300.0)], [(150e3, 0.0, 0.0, 300.0)]
    blue = [(300e3, 0.0, 0.0, 300.0)], [(200e3, 0.0, 0.0, 300.0)]
    state = opening(params, *red, *blue)
    found = []
    for dead in (None, 0, 1, 2, 3):  # 1 and 3 are 50 km apart, 1 and 2 are 150 km apart
        alive = torch.tensor([[n != dead] for n in range(4)])
        found.append(state._replace(aircraft=state.aircraft._replace(alive=alive)))
    assert [disengaged(params, s).item() for s in found] == [False, False, True, False, True]
