"""Space-time graphs of a whole episode, packed so that hundreds of them fit into a page."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from navrl.envs.combat.sim.state import CombatParams, CombatState

# drawing(params, state, env, me): lines, cone, missiles and margins of one aircraft, as plain data
Draw = Callable[[CombatParams, CombatState, int, int], dict[str, Any]]

MOST_GRAPHS = 600  # one against one, 300 decisions: both aircraft at every decision


def packed_graphs(
    params: CombatParams, states: Sequence[CombatState], times_s: Sequence[float], draw: Draw
) -> dict[str, Any]:
    """Graphs of every living aircraft, at every decision or, in large fights, at every few."""
    aircraft = len(params.teams)
    stride = math.ceil(len(states) * aircraft / MOST_GRAPHS)
    tables = _Tables()
    chosen = range(0, len(states), stride)
    graphs = [
        [
            _packed(draw(params, states[index], 0, me), states[index], tables)
            if _fights(params, states[index], me)
            else None
            for me in range(aircraft)
        ]
        for index in chosen
    ]
    times = [round(times_s[index], 2) for index in chosen]
    return {"times": times, "tables": tables.rows, "of": graphs}


class _Tables:
    """Lists that many graphs share, such as the times of a line, are kept once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[str, int] = {}

    def index(self, row: list[Any]) -> int:
        key = repr(row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(row)
        return self._known[key]


def _fights(params: CombatParams, state: CombatState, me: int) -> bool:
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
        "missiles": [_missile(m, graph["me"], horizon_s, seen) for m in graph["missiles"]],
        "margins": _margins(graph["margins"]),
    }


def _line(line: Sequence[Sequence[float]], tables: _Tables) -> dict[str, Any]:
    x, y, t = (list(field) for field in zip(*line, strict=True))
    times = [round(time_s, 2) for time_s in t]
    return {"x": differenced(x), "y": differenced(y), "t": tables.index(times)}


def _cone(graph: dict[str, Any], state: CombatState, tables: _Tables) -> dict[str, Any]:
    """Radii around the enemy; the page knows where it is and where it points."""
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


def _missile(
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


def differenced(values: Sequence[float]) -> list[int]:
    """Whole numbers, differenced twice: along a smooth line they are small."""
    whole = [round(value) for value in values]
    for _ in range(2):
        whole = [after - before for after, before in zip(whole, [0, *whole], strict=False)]
    return whole
