"""Matches: who won, how many missiles, how long; whatever else is in the batch."""

from dataclasses import replace

import pytest
import torch

from navrl.envs.combat.match import play, play_both_ways
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import Command
from tests.envs.combat.opponents.pictures import keys, pilot
from tests.envs.combat.opponents.test_pilots import scenario
from tests.envs.combat.sim.duels import read_yaml, shipped_params

PARAMS = shipped_params(tick_s=0.25, time_limit_s=90.0)


def match(first, second, count, params=PARAMS, **fixed):
    """Rows winner, launches of both, seconds; sorted, since a match has no order."""
    ends = play(params, scenario(), (pilot(first, params), pilot(second, params)), keys(count))
    return ends[:, ends[0].argsort()]


@pytest.mark.parametrize("seats", [("crank", "straight"), ("straight", "crank")])
def test_the_winner_is_named_from_the_first_seat(seats):
    winner, *launches, length_s = match(*seats, 20)
    crank = seats.index("crank")
    assert winner.tolist() == [1.0 - 2.0 * crank] * 20
    assert launches[crank].tolist() == [1.0] * 20
    assert launches[1 - crank].tolist() == [0.0] * 20
    assert length_s.min() > 10.0
    assert length_s.max() < 90.0


def test_a_match_of_many_is_many_matches():
    # Fights leave the batch when they are over; that must not touch the others.
    together = play(PARAMS, scenario(), (pilot("random"), pilot("phase2")), keys(12))
    parts = [
        play(PARAMS, scenario(), (pilot("random"), pilot("phase2")), part)
        for part in (keys(12)[:1], keys(12)[1:5], keys(12)[5:])
    ]
    rows = sorted(together.t().tolist())
    assert rows == sorted(torch.cat(parts, 1).t().tolist())
    assert len({row[0] for row in rows}) > 1
    assert len({row[3] for row in rows}) > 6


class Exchanged:
    """A scenario with everybody where an enemy would begin."""

    def opening(self, key, team_size):
        motion = scenario().opening(key, team_size)
        return Motion(*(field.roll(team_size, 0) for field in motion))


def test_both_seats_are_alike():
    # Without thresholds that depend on the seat, exchanged openings have exchanged ends, to the bit.
    pilots = settled("crank"), settled("phase3")
    here = play(PARAMS, scenario(), pilots, keys(60))
    there = play(PARAMS, Exchanged(), pilots[::-1], keys(60))
    winner, first, second, length_s = there
    expected = torch.stack([-winner, second, first, length_s]).t().tolist()
    assert sorted(here.t().tolist()) == sorted(expected)
    assert set(winner.tolist()) == {-1.0, 0.0, 1.0}
    assert first.mean() != second.mean()


def settled(name):
    """The shipped pilot with every threshold in the middle of its range."""
    node = read_yaml(f"opponent/{name}.yaml")
    return pilot(name, **{key: sum(pair) / 2 for key, pair in node.items() if type(pair) is list})


class Favoured(Pilot):
    """Fires as crank does, but in the first seat only, and never turns."""

    crank = pilot("crank", PARAMS)

    def initial(self, key):
        return self.crank.initial(key)

    def act(self, params, state, me, memory):
        command, memory = self.crank.act(params, state, me, memory)
        return Command(0.0 * command.rudder, command.throttle, command.fire & (me == 0)), memory


def test_no_pilot_has_the_better_seat_in_more_than_half_of_the_episodes():
    head_on = replace(scenario(), heading_spread_rad=0.0)
    winner, first, second, length_s = play_both_ways(
        PARAMS, head_on, (Favoured(), Favoured()), keys(40)
    )
    assert winner.tolist() == [1.0] * 20 + [-1.0] * 20
    assert (first > 0.0).tolist() == [True] * 20 + [False] * 20
    assert (second > 0.0).tolist() == [False] * 20 + [True] * 20
    assert length_s.shape == (40,)
