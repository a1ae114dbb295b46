"""A recording shows what the simulator did: the same events, at the tick they happened."""

import math
from collections import Counter

import pytest
import torch
from tensordict import TensorDict

import navrl.view.episodes
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.state import decided, winner_sign
from navrl.view.combat_recording import play_episodes, recording
from tests.envs.combat.sim.duels import opening, orders, play, shipped_params
from tests.view.fights import brawl, choice, duel

_KINDS = {"launch": "launched", "hit": "hit", "miss": "missed", "kill": "killed"}


def recorded_events(recorded, kind):
    """Return (decision, aircraft) of every such event of the recording."""
    early = (
        1e-6 if kind == "launch" else -1e-6
    )  # a launch begins its decision, the others end a tick
    return {
        (math.floor(event.time_s / recorded.params.step_s + early), event.aircraft)
        for event in recorded.events
        if event.kind == kind
    }


def happened(events, kind):
    """The same from the simulator's flags."""
    return {
        (decision, aircraft)
        for decision, flags in enumerate(events)
        for aircraft in getattr(flags, _KINDS[kind])[:, 0].nonzero().flatten().tolist()
    }


@pytest.mark.parametrize(
    "fight",
    [
        duel,
        lambda: duel(decision_s=0.5, ammunition=2, burn_time_s=3.0),
        lambda: duel(burn_time_s=4.0, self_destruct_speed_mps=330.0),  # with misses
        lambda: duel(resolve_in_flight=True),
        brawl,
        lambda: brawl(3, retarget=True, channels=1),
        lambda: brawl(2, channel_mode="recycle", channels=1, burn_time_s=2.0),
        lambda: brawl(2, model="legacy", guidance_law="legacy_gain"),
    ],
)
def test_the_events_are_those_of_the_simulator(fight):
    params, states, events = fight()
    recorded = recording(params, states)
    for kind in _KINDS:
        assert recorded_events(recorded, kind) == happened(events, kind)
    launched = Counter(e.aircraft for e in recorded.events if e.kind == "launch")
    fired = (states[0].aircraft.rounds - states[-1].aircraft.rounds)[:, 0].tolist()
    assert [launched[index] for index in range(len(fired))] == fired
    times = [event.time_s for event in recorded.events]
    assert times == sorted(times)


def test_a_recycled_missile_ends_where_the_next_one_begins():
    params = shipped_params(channel_mode="recycle")
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(40000.0, 0.0, 0.0, 300.0)])
    states, _ = play(params, state, 4, fire=[True, False])
    recorded = recording(params, states)
    assert [(f.track.time_s[0], f.track.time_s[-1], f.ending) for f in recorded.flights] == [
        (0.0, 1.0, "miss"), (1.0, 2.0, "miss"), (2.0, 3.0, "miss"), (3.0, 4.0, "flying")
    ]  # fmt: skip


def test_a_kill_has_the_time_of_its_tick():
    params, states, _ = duel()
    recorded = recording(params, states)
    before = states[-2]
    rudder, fire = zip(*(choice(params, before, me) for me in (0, 1)), strict=True)
    single = params._replace(decision_s=params.dt_s)
    state, ticks = before, 0
    while bool(state.aircraft.alive.all()):
        action = orders(state, rudder=rudder, fire=fire if ticks == 0 else False)
        state, ticks = advance(single, state, action)[0], ticks + 1
    assert 0 < ticks < params.ticks, "the fight is chosen so that it ends within a decision"
    expected = (len(states) - 2) * params.step_s + ticks * params.dt_s
    (kill,) = [event for event in recorded.events if event.kind == "kill"]
    assert kill.time_s == pytest.approx(expected)
    assert recorded.times_s[-1] == pytest.approx(expected)
    assert recorded.aircraft[kill.aircraft].died_s == pytest.approx(expected)
    for body in (*recorded.aircraft, *recorded.flights):
        assert body.track.time_s[-1] <= expected + 1e-9


def test_tracks_pass_through_the_states():
    params, states, _ = brawl()
    recorded = recording(params, states)
    for index, record in enumerate(recorded.aircraft):
        motion = states[5].aircraft.motion
        assert record.team == index // 4
        assert record.track.time_s[5] == pytest.approx(5 * params.step_s)
        assert record.track.x_m[5] == motion.x_m[index, 0]
        assert record.track.speed_mps[5] == motion.speed_mps[index, 0]
        assert math.cos(record.track.heading_rad[5]) == pytest.approx(
            float(motion.cos_heading[index, 0]), abs=1e-6
        )
        assert record.rudder[5] == states[5].aircraft.rudder[index, 0]
        ends = (record.died_s is None) == bool(states[-1].aircraft.alive[index, 0])
        assert ends, "whoever is dead in the last state died at some time"
    for flight in recorded.flights:
        carrier = recorded.aircraft[flight.carrier].track
        knot = carrier.time_s.index(flight.track.time_s[0])
        offset_m = math.hypot(
            flight.track.x_m[0] - carrier.x_m[knot], flight.track.y_m[0] - carrier.y_m[knot]
        )
        assert offset_m == pytest.approx(params.launch_offset_m, abs=1e-2)


def test_a_point_blank_missile_lives_within_one_decision():
    params = shipped_params()
    state = opening(params, [(0.0, 0.0, 0.0, 400.0)], [(300.0, 0.0, 0.0, 200.0)])
    states, _ = play(params, state, 1, first={"fire": [True, False]})
    recorded = recording(params, states)
    (flight,) = recorded.flights
    assert flight.ending == "hit"
    assert len(flight.track.time_s) == 2
    assert 0.0 < flight.track.time_s[-1] < 1.0
    assert recorded.winner == 0
    assert [event.kind for event in recorded.events] == ["launch", "hit", "kill"]


def face_off(**changes):
    """Two aircraft that fly apart, and nothing in the air."""
    params = shipped_params(**changes)
    return params, opening(params, [(0.0, 0.0, 180.0, 300.0)], [(20000.0, 0.0, 0.0, 300.0)])


def test_why_it_ended():
    params, state = face_off(time_limit_s=3.0)
    states, _ = play(params, state, 3)
    assert recording(params, states)[-2:] == (None, "the time is up")

    params, state = face_off(disengage_range_m=21000.0)
    states, _ = play(params, state, 3)
    assert recording(params, states)[-2:] == (None, "everybody is out of reach")

    shot = {"burn_time_s": 1.0, "self_destruct_speed_mps": 400.0, "ammunition": 1}
    params, state = face_off(**shot)
    states, events = play(params, state, 8, first={"fire": True})
    states = states[: 2 + next(i for i, flags in enumerate(events) if bool(flags.missed.all()))]
    recorded = recording(params, states)
    assert (recorded.winner, recorded.reason) == (None, "nobody has a missile left")
    *_, last = [event for event in recorded.events if event.kind == "miss"]
    assert recorded.times_s[-1] == pytest.approx(last.time_s)

    params = shipped_params()
    state = opening(params, [(-8000.0, 0.0, 0.0, 300.0)], [(8000.0, 0.0, 180.0, 300.0)])
    states, _ = play(params, state, 13, first={"fire": True})
    assert recording(params, states)[-2:] == (None, "both sides died")


def test_who_has_won_is_what_the_simulator_says():
    # Blue is hit from behind; its own missile is turning about, so nothing is decided when the time is up.
    params = shipped_params(resolve_in_flight=True, time_limit_s=14.0)
    state = opening(params, [(0.0, 0.0, 0.0, 300.0)], [(6000.0, 0.0, 0.0, 300.0)])
    states, _ = play(params, state, 14, first={"fire": True})
    assert not decided(params, states[-1]).item()
    recorded = recording(params, states)
    assert (recorded.winner, recorded.reason) == (0, "the other side is dead")
    assert winner_sign(params, states[-1], 0).item() == 1.0


class Clockwork:
    """Three empty skies; env i ends its first episode after i + 2 decisions."""

    batch_size = torch.Size([3])

    def __init__(self):
        self.clock, self.params = 0, shipped_params()
        self._opening = opening(
            self.params,
            [(float(i), 0.0, 0.0, 300.0) for i in range(3)],
            [(9e3, 0.0, 0.0, 300.0)] * 3,
        )

    @property
    def combat_state(self):
        return self._opening._replace(decision=torch.full((3,), self.clock, dtype=torch.int32))

    def reset(self):
        return TensorDict({"done": torch.zeros(3, 1, dtype=torch.bool)}, batch_size=[3])

    def step(self, tensordict):
        self.clock += 1
        done = self.clock >= torch.arange(3).unsqueeze(-1) + 2
        return tensordict.set("next", TensorDict({"done": done}, batch_size=[3]))


def test_every_env_gives_the_states_of_its_first_episode():
    env = Clockwork()
    episodes = play_episodes(env, lambda tensordict: tensordict)
    assert [len(states) for states in episodes] == [3, 4, 5], "the opening, and one per decision"
    assert env.clock == 4
    for index, states in enumerate(episodes):
        assert [int(state.decision) for state in states] == list(range(index + 3))
        assert {float(state.aircraft.motion.x_m[0]) for state in states} == {float(index)}


@pytest.mark.parametrize("every_s", [-1.0, 60.0])
def test_a_long_replay_prints_its_progress_and_a_short_one_nothing(every_s, monkeypatch, capsys):
    monkeypatch.setattr(navrl.view.episodes, "_PROGRESS_EVERY_S", every_s)
    play_episodes(Clockwork(), lambda tensordict: tensordict)
    expected = [f"played {ended} of 3 episodes to their ends, 0 s" for ended in (0, 1, 2)]
    assert capsys.readouterr().err.splitlines() == (expected if every_s < 0.0 else [])
