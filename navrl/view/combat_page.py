"""The replay page of a fight: its HTML, its data, and the packed space-time graphs in it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.view.combat_recording import Flight, Recording, Track
from navrl.view.html import COMBAT, differenced, page
from navrl.view.spacetime import SPEED_OF_SOUND_MPS

SIDES = ("Red", "Blue")
MOST_GRAPHS = 600  # one against one, 300 decisions: both aircraft at every decision

Pilots = tuple[str, str]  # the names of the pilots of both sides
# spacetime_graph(params, state, env, me): lines, cone, missiles and margins of one aircraft, as plain data
MakeGraph = Callable[[CombatParams, CombatState, int, int], dict[str, Any]]


def combat_page(
    recorded: Recording, make_graph: MakeGraph, *, title: str, subtitle: str, pilots: Pilots
) -> str:
    """Return the replay as one HTML file; make_graph computes the space-time graph of one aircraft."""
    data = combat_data(recorded, make_graph, title=title, subtitle=subtitle, pilots=pilots)
    return page(COMBAT, data)


def combat_data(
    recorded: Recording, make_graph: MakeGraph, *, title: str, subtitle: str, pilots: Pilots
) -> dict[str, Any]:
    """Return the data that the scripts of the page read."""
    params = recorded.params
    return {
        "title": title,
        "subtitle": subtitle,
        "sides": side_labels(pilots),
        "duration": recorded.times_s[-1],
        "winner": recorded.winner,
        "outcome": outcome(recorded),
        "turnRadius": params.fighter.turn_radius_m,
        "maxLoad": params.fighter.max_load_g,
        "burnTime": params.burn_time_s,
        "ammunition": params.ammunition,
        "speedOfSound": SPEED_OF_SOUND_MPS,
        "aircraft": [
            {
                "name": name,
                "side": record.team,
                "track": _track(record.track),
                "rudder": [round(rudder, 2) for rudder in record.rudder],
                "rounds": record.rounds,
                "died": record.died_s,
            }
            for name, record in zip(aircraft_names(recorded), recorded.aircraft, strict=True)
        ],
        "missiles": [_missile(flight) for flight in recorded.flights],
        "events": [
            {"t": round(e.time_s, 2), "kind": e.kind, "aircraft": e.aircraft, "other": e.other}
            for e in recorded.events
        ],
        "graphs": packed_graphs(params, recorded.states, recorded.times_s, make_graph),
    }


def aircraft_names(recorded: Recording) -> list[str]:
    """Return the name of every aircraft: Red, Blue; in teams Red 1, Red 2, ..."""
    size = recorded.params.team_size
    return [
        SIDES[record.team] + (f" {index % size + 1}" if size > 1 else "")
        for index, record in enumerate(recorded.aircraft)
    ]


def side_labels(pilots: Pilots) -> list[str]:
    """Return the labels of both sides for legends, such as 'Red: crank'."""
    return [f"{side}: {pilot}" for side, pilot in zip(SIDES, pilots, strict=True)]


def outcome(recorded: Recording) -> str:
    """Return the winner and the reason in words, such as 'Red wins after 71.8 s'."""
    after = f"after {recorded.times_s[-1]:.1f} s"
    if recorded.winner is None:
        return f"Draw {after}: {recorded.reason}"
    return f"{SIDES[recorded.winner]} wins {after}"


def _track(track: Track) -> dict[str, list[float]]:
    return {
        "t": [round(time_s, 2) for time_s in track.time_s],
        "x": [round(x_m, 1) for x_m in track.x_m],
        "y": [round(y_m, 1) for y_m in track.y_m],
        "h": [round(heading_rad, 4) for heading_rad in track.heading_rad],
        "v": [round(speed_mps, 1) for speed_mps in track.speed_mps],
    }


def _missile(flight: Flight) -> dict[str, Any]:
    return {
        "carrier": flight.carrier,
        "target": flight.target,
        "ending": flight.ending,
        "track": _track(flight.track),
    }


# ---- space-time graphs, packed so that hundreds of them fit into a page ----------------------------


def packed_graphs(
    params: CombatParams,
    states: Sequence[CombatState],
    times_s: Sequence[float],
    make_graph: MakeGraph,
) -> dict[str, Any]:
    """Return graphs of every living aircraft, at every decision or, in large fights, at every n-th."""
    aircraft = len(params.teams)
    stride = math.ceil(len(states) * aircraft / MOST_GRAPHS)
    tables = _Tables()
    chosen = range(0, len(states), stride)
    graphs = [
        [
            _packed(make_graph(params, states[index], 0, me), states[index], tables)
            if fights(params, states[index], me)
            else None
            for me in range(aircraft)
        ]
        for index in chosen
    ]
    times = [round(times_s[index], 2) for index in chosen]
    return {"times": times, "tables": tables.rows, "of": graphs}


def packed_graph(
    params: CombatParams, state: CombatState, time_s: float, me: int, graph: dict[str, Any]
) -> dict[str, Any]:
    """Return one graph of one aircraft in the form of `packed_graphs`."""
    tables = _Tables()
    of: list[Any] = [None] * len(params.teams)
    of[me] = _packed(graph, state, tables)
    return {"times": [round(time_s, 2)], "tables": tables.rows, "of": [of]}


class _Tables:
    """A store of lists that many graphs share, such as the times of a line, each kept once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[str, int] = {}

    def index(self, row: list[Any]) -> int:
        key = repr(row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(row)
        return self._known[key]


def fights(params: CombatParams, state: CombatState, me: int) -> bool:
    """Return whether the aircraft lives and an enemy does."""
    alive = state.aircraft.alive[:, 0].tolist()
    return alive[me] and any(
        lives for lives, team in zip(alive, params.teams, strict=True) if team != params.teams[me]
    )


def _packed(graph: dict[str, Any], state: CombatState, tables: _Tables) -> dict[str, Any]:
    seen: dict[tuple[int, int], int] = {}
    horizon_s = graph["lines"]["current"][-1][2]
    return {
        "enemy": graph["enemy"],
        "lines": {name: _line(line, tables) for name, line in graph["lines"].items()},
        "cone": _cone(graph, state, tables),
        "missiles": [_graph_missile(m, graph["me"], horizon_s, seen) for m in graph["missiles"]],
        "margins": _margins(graph["margins"]),
    }


def _line(line: Sequence[Sequence[float]], tables: _Tables) -> dict[str, Any]:
    x, y, t = (list(field) for field in zip(*line, strict=True))
    times = [round(time_s, 2) for time_s in t]
    return {"x": differenced(x), "y": differenced(y), "t": tables.index(times)}


def _cone(graph: dict[str, Any], state: CombatState, tables: _Tables) -> dict[str, Any]:
    """Return radii around the enemy, of which the page knows position and heading."""
    motion, enemy = state.aircraft.motion, graph["enemy"]
    x_m, y_m = float(motion.x_m[enemy, 0]), float(motion.y_m[enemy, 0])
    slices = graph["cone"]["slices"]
    pale = [[int(slow) for slow in row] for row in graph["no_threat"]]
    return {
        "t": tables.index(list(graph["cone"]["times"])),
        "angles": tables.index(list(graph["cone"]["angles_deg"])),
        "r": [differenced([math.hypot(x - x_m, y - y_m) for x, y in points]) for points in slices],
        "n": tables.index(pale),
    }


def _graph_missile(
    missile: dict[str, Any], me: int, horizon_s: float, seen: dict[tuple[int, int], int]
) -> dict[str, Any]:
    pair = (missile["carrier"], missile["target"])
    seen[pair] = seen.get(pair, 0) + 1
    line = [point for point in missile["line"] if point[2] <= horizon_s]
    x, y, t = zip(*line, strict=True)
    return {
        "id": f"{pair[0]}/{pair[1]}/{seen[pair]}",  # finds the same missile in the next graph
        "mine": missile["carrier"] == me,
        "line": {"x": differenced(x), "y": differenced(y), "ms": differenced([1e3 * s for s in t])},
        "ends": len(line) == len(missile["line"]),
        "noThreatFrom": missile["no_threat_from"],
        "hits": bool(missile["hits"]),
    }


def _margins(margins: dict[str, float]) -> list[float]:
    distances = [round(margins[f"{name}_m"]) for name in ("left", "right", "current")]
    return [*distances, round(margins["critical_s"], 1)]
