"""Recordings of air combat: tracks of all aircraft and missiles, and the events of an episode.

The simulator reports a state per decision. Between two of them a missile may end and an aircraft may die,
on a physics tick that follows from the age of the missile; both then stay where that tick left them.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import CombatParams, CombatState, decided, timed_out, winner_sign
from navrl.view.episodes import Act, first_episodes


class Track(NamedTuple):
    """Knots of the path of one aircraft or missile, all lists of the same length."""

    time_s: list[float]
    x_m: list[float]
    y_m: list[float]
    heading_rad: list[float]
    speed_mps: list[float]


class AircraftRecord(NamedTuple):
    """One aircraft; lists have an entry per knot of its track."""

    team: int
    track: Track  # ends where the aircraft dies
    rudder: list[float]  # flown on the way to the knot, positive turns left
    rounds: list[int]  # missiles left
    died_s: float | None


class Flight(NamedTuple):
    """One missile from its launch to its end."""

    carrier: int
    channel: int
    aimed_at: int  # at the launch
    target: int  # in the end; another one if missiles may turn to the next enemy
    track: Track
    ending: str  # hit, miss, or flying when the episode ended


class Event(NamedTuple):
    """An event that is marked on the time line."""

    time_s: float
    kind: str  # launch, hit, miss: of a missile of `aircraft`; kill: `aircraft` died
    aircraft: int
    other: int  # the target of the missile, or the aircraft that killed


class Recording(NamedTuple):
    """The recording of one episode."""

    params: CombatParams
    states: list[CombatState]  # one env, on the CPU: the opening and the state after every decision
    times_s: list[float]  # of the states; the last is when the fight was decided
    aircraft: list[AircraftRecord]
    flights: list[Flight]
    events: list[Event]  # in the order of their times
    winner: int | None  # team, None: a draw
    reason: str  # why it ended


def play_episodes(env: Any, policy: Act) -> list[list[CombatState]]:
    """Play the first episode of every env and return its states, each of one env."""
    states = []
    lengths = torch.zeros(env.batch_size, dtype=torch.int64)
    for _, running in first_episodes(env, policy):
        states.append(_on_cpu(env.combat_state))
        lengths += running
    return [
        [_one_env(state, index) for state in states[:length]]
        for index, length in enumerate(lengths.tolist())
    ]


def recording(params: CombatParams, states: list[CombatState]) -> Recording:
    """Return the recording of one episode, derived from its states."""
    flights = _flights(params, states)
    events = _events(flights)
    over = bool(decided(params, states[-1]).item())
    times_s = [index * params.step_s for index in range(len(states))]
    if over and events:
        times_s[-1] = max(event.time_s for event in events)
    flights = [_not_beyond(flight, times_s[-1]) for flight in flights]
    aircraft = [
        _aircraft(params, states, times_s, events, index) for index in range(len(params.teams))
    ]
    winner = {1: 0, -1: 1, 0: None}[int(winner_sign(params, states[-1], 0).item())]
    reason = _reason(params, states[-1], winner)
    return Recording(params, states, times_s, aircraft, flights, events, winner, reason)


def _reason(params: CombatParams, last: CombatState, winner: int | None) -> str:
    if winner is not None:
        return "the other side is dead"
    if not last.aircraft.alive.any():
        return "both sides died"
    if decided(params, last).item():
        return "nobody has a missile left"
    late = bool(timed_out(params, last).item())
    return "the time is up" if late else "everybody is out of reach"


def _on_cpu(state: CombatState) -> CombatState:
    return pytree.tree_map(lambda field: field.detach().cpu(), state)


def _one_env(state: CombatState, index: int) -> CombatState:
    return pytree.tree_map(lambda field: field[..., index : index + 1].clone(), state)


def knot_of(time_s: float, motion: Motion, *index: int) -> tuple[float, ...]:
    x_m, y_m, cos, sin, speed_mps = (float(field[(*index, 0)]) for field in motion)
    return time_s, x_m, y_m, math.atan2(sin, cos), speed_mps


def _track(knots: list[tuple[float, ...]]) -> Track:
    return Track(*(list(field) for field in zip(*knots, strict=True)))


def _aircraft(
    params: CombatParams,
    states: list[CombatState],
    times_s: list[float],
    events: list[Event],
    index: int,
) -> AircraftRecord:
    deaths = [event.time_s for event in events if event[1:3] == ("kill", index)]
    died_s = deaths[0] if deaths else None
    knots, rudder, rounds = [], [], []
    for time_s, state in zip(times_s, states, strict=True):
        craft = state.aircraft
        alive = bool(craft.alive[index, 0])
        knots.append(knot_of(time_s if alive else died_s or time_s, craft.motion, index))
        rudder.append(float(craft.rudder[index, 0]))
        rounds.append(int(craft.rounds[index, 0]))
        if not alive:
            break
    return AircraftRecord(params.teams[index], _track(knots), rudder, rounds, died_s)


# ---- missiles --------------------------------------------------------------------------------------


def _flights(params: CombatParams, states: list[CombatState]) -> list[Flight]:
    """Return every missile that was launched, in the order of the launches."""
    carriers, channels = states[0].missiles.active.shape[:2]
    found: list[Flight] = []
    for carrier in range(carriers):
        for channel in range(channels):
            found += _of_channel(params, states, carrier, channel)
    return sorted(found, key=lambda flight: (flight.track.time_s[0], flight.carrier))


def _of_channel(
    params: CombatParams, states: list[CombatState], carrier: int, channel: int
) -> list[Flight]:
    flights: list[Flight] = []
    knots: list[tuple[float, ...]] = []
    aimed_at = 0

    def close(ending: str, target: int) -> None:
        flights.append(Flight(carrier, channel, aimed_at, target, _track(knots), ending))

    for index, (before, after) in enumerate(pairwise(states)):
        time_s = index * params.step_s
        was_active = bool(before.missiles.active[carrier, channel, 0])
        if launched_between(params, before, after, carrier, channel):
            if was_active:  # given up for the new one
                close("miss", int(before.missiles.target[carrier, channel, 0]))
            knots = [launch_knot(params, before, carrier, time_s)]
            aimed_at = int(after.missiles.target[carrier, channel, 0])
        elif not was_active:
            continue
        missiles = after.missiles
        age_s = int(missiles.age_ticks[carrier, channel, 0]) * params.dt_s
        knots.append(knot_of(knots[0][0] + age_s, missiles.motion, carrier, channel))
        active = bool(missiles.active[carrier, channel, 0])
        if active and after is states[-1]:
            close("flying", int(missiles.target[carrier, channel, 0]))
        elif not active:
            target = int(missiles.target[carrier, channel, 0])
            struck = struck_between(params, before, after, (carrier, channel), target)
            close("hit" if struck else "miss", target)
    return flights


def launched_between(
    params: CombatParams, before: CombatState, after: CombatState, carrier: int, channel: int
) -> bool:
    """Return true if the channel's missile was launched in this decision; it may also have ended in it."""
    if int(after.missiles.age_ticks[carrier, channel, 0]) > params.ticks:
        return False
    old, new = (
        (missiles.motion.x_m, missiles.motion.y_m, missiles.age_ticks, missiles.active)
        for missiles in (before.missiles, after.missiles)
    )  # not the headings: those of idle channels are renormalised
    return any(
        bool(a[carrier, channel, 0] != b[carrier, channel, 0])
        for a, b in zip(old, new, strict=True)
    )


def launch_knot(
    params: CombatParams, state: CombatState, carrier: int, time_s: float
) -> tuple[float, ...]:
    _, x_m, y_m, heading_rad, speed_mps = knot_of(time_s, state.aircraft.motion, carrier)
    offset_m = params.launch_offset_m
    x_m, y_m = x_m + offset_m * math.cos(heading_rad), y_m + offset_m * math.sin(heading_rad)
    return time_s, x_m, y_m, heading_rad, speed_mps


def struck_between(
    params: CombatParams,
    before: CombatState,
    after: CombatState,
    shot: tuple[int, int],
    target: int,
) -> bool:
    """Return true if the target died in this decision, within a tick of where the missile stopped."""
    died = before.aircraft.alive[target, 0] & ~after.aircraft.alive[target, 0]
    missile_knot, target_knot = (
        knot_of(0.0, after.missiles.motion, *shot),
        knot_of(0.0, after.aircraft.motion, target),
    )
    distance_m = math.hypot(missile_knot[1] - target_knot[1], missile_knot[2] - target_knot[2])
    tick_m = (missile_knot[4] + target_knot[4]) * params.dt_s
    return bool(died) and distance_m < params.hit_radius_m + tick_m


def _not_beyond(flight: Flight, end_s: float) -> Flight:
    """Return the flight, cut at the end of the fight."""
    return flight._replace(
        track=flight.track._replace(time_s=[min(time_s, end_s) for time_s in flight.track.time_s])
    )


def _events(flights: list[Flight]) -> list[Event]:
    events: list[Event] = []
    killed: set[int] = set()
    for flight in sorted(flights, key=lambda flight: flight.track.time_s[-1]):
        first_s, last_s = flight.track.time_s[0], flight.track.time_s[-1]
        events.append(Event(first_s, "launch", flight.carrier, flight.aimed_at))
        if flight.ending != "flying":
            events.append(Event(last_s, flight.ending, flight.carrier, flight.target))
        if flight.ending == "hit" and flight.target not in killed:
            killed.add(flight.target)
            events.append(Event(last_s, "kill", flight.target, flight.carrier))
    return sorted(events, key=lambda event: event.time_s)  # stable: a hit stays before its kill
