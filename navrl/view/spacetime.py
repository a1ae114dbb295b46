"""The space-time graph of one aircraft as plain lists, ready for JSON and for any renderer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.lines import SIDES, Line, Steered, along, current_line, three_lines
from navrl.envs.combat.sim.missile_line import Chase, Shot, arc_s, begun, pursued
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.reach import ReachTable, cell, interpolated, reach_table
from navrl.envs.combat.sim.relative import focal_index
from navrl.envs.combat.sim.spacetime import Margins, margins
from navrl.envs.combat.sim.state import CombatState, enemies_of

LINE_TIMES_S = tuple(range(21))
CONE_TIMES_S = tuple(2.5 * step for step in range(1, 9))
CONE_ANGLES_DEG = tuple(range(-180, 181, 10))
SPEED_OF_SOUND_MPS = 340.0  # a slower missile is drawn pale: it catches nobody
_PART_OF_TIME_TO_GO, _LONGEST_ARC_S, _MOST_ARCS = 0.1, 0.5, 160  # of a missile's path
_RECEDING_S = 5.0  # a missile without thrust that has receded for so long does not come back

Point = list[float]


def drawing(params: CombatParams, state: CombatState, env: int, me: int) -> dict[str, Any]:
    """The graph of aircraft `me` in one env, in world coordinates: metres, seconds, degrees.

    lines: my escapes to the left and right and my current line, [x, y, t] once a second for 20 s;
    cone: how far a missile of the nearest enemy gets, as one outline per time, no_threat where it would be
    slow there; missiles: what each missile at me will do to my current line, until it is closest;
    margins, attack: what my escapes have to spare if he launched now, and his if I did.
    """
    enemy = nearest_enemy(params, state, env, me)
    mine, his = steered(state, env, me), steered(state, env, enemy)
    table = reach_table(params)
    slices, no_threat = outlines(table, his.motion, CONE_TIMES_S)
    return {
        "me": me,
        "enemy": enemy,
        "lines": line_points(params, mine, his.motion, LINE_TIMES_S),
        "cone": {
            "times": list(CONE_TIMES_S),
            "angles_deg": list(CONE_ANGLES_DEG),
            "slices": slices,
        },
        "no_threat": no_threat,
        "missiles": _missiles(params, state, env, me),
        "margins": plain_margins(margins(params, table, his.motion, mine)),
        "attack": plain_margins(margins(params, table, mine.motion, his)),
    }


def steered(state: CombatState, env: int, index: int) -> Steered:
    """One aircraft of one env, fields (1,) on the CPU."""
    craft = state.aircraft

    def here(field: Tensor) -> Tensor:
        return field[index, env : env + 1].cpu()

    return Steered(Motion(*map(here, craft.motion)), here(craft.rudder), here(craft.throttle))


def nearest_enemy(params: CombatParams, state: CombatState, env: int, me: int) -> int:
    """Index of the nearest living enemy, or of the first when none is alive."""
    return enemies_of(params, me)[int(focal_index(params, state, me)[env])]


def plain_margins(found: Margins) -> dict[str, float]:
    """Margins of one aircraft as numbers."""
    left_m, right_m, current_m, critical_s = (field.item() for field in found)
    return {
        "left_m": round(left_m),
        "right_m": round(right_m),
        "current_m": round(current_m),
        "critical_s": _time(critical_s),
    }


def line_points(
    params: CombatParams, mine: Steered, threat: Motion, times_s: Sequence[float]
) -> dict[str, list[Point]]:
    """My escapes from the threat and my current line, by name, [x, y, t] at these times."""
    line = three_lines(params.fighter, mine, threat)
    place = along(params.fighter, line, torch.tensor(times_s, dtype=torch.float32))  # (3, T)
    return {
        name: [[round(x), round(y), time_s] for x, y, time_s in zip(xs, ys, times_s, strict=True)]
        for name, xs, ys in zip(SIDES, place.x_m.tolist(), place.y_m.tolist(), strict=True)
    }


def outlines(
    table: ReachTable, launcher: Motion, times_s: Sequence[float]
) -> tuple[list[list[Point]], list[list[bool]]]:
    """Outlines (times, angles) of the reach in world coordinates, and where the missile is slow."""
    angle = torch.deg2rad(torch.tensor(CONE_ANGLES_DEG, dtype=torch.float32))
    cos, sin = torch.cos(angle), torch.sin(angle)
    place = cell(launcher.speed_mps, cos, sin)
    rows = table.at(times_s)
    reach_m = interpolated(rows.distance_m, place)  # (T, angles)
    x_m = launcher.x_m + reach_m * (launcher.cos_heading * cos - launcher.sin_heading * sin)
    y_m = launcher.y_m + reach_m * (launcher.sin_heading * cos + launcher.cos_heading * sin)
    points = [
        [[round(x), round(y)] for x, y in zip(xs, ys, strict=True)]
        for xs, ys in zip(x_m.tolist(), y_m.tolist(), strict=True)
    ]
    return points, (interpolated(rows.speed_mps, place) < SPEED_OF_SOUND_MPS).tolist()


def _missiles(params: CombatParams, state: CombatState, env: int, me: int) -> list[dict[str, Any]]:
    """The missiles at me, each against my current line."""
    flying = state.missiles
    active, target = flying.active[:, :, env].tolist(), flying.target[:, :, env].tolist()
    sources = [
        (carrier, channel)
        for carrier in enemies_of(params, me)
        for channel in range(params.channels)
        if active[carrier][channel] and target[carrier][channel] == me
    ]
    if not sources:
        return []

    def gathered(field: Tensor) -> Tensor:
        return torch.stack([field[carrier, channel, env] for carrier, channel in sources]).cpu()

    age_s = gathered(flying.age_ticks).float() * params.dt_s
    shot = Shot(Motion(*map(gathered, flying.motion)), age_s)  # fields (M,)
    line = current_line(params.fighter, steered(state, env, me))
    chases = _chases(params, shot, line)
    return [
        {"carrier": carrier, "target": me} | _path(params, chases, index)
        for index, (carrier, _) in enumerate(sources)
    ]


def _chases(params: CombatParams, shot: Shot, line: Line) -> list[Chase]:
    """The chases (M,) arc by arc, until nothing more will happen."""
    chases = [begun(params, shot, line)]
    for _ in range(_MOST_ARCS):
        chase = chases[-1]
        receding = (chase.time_s - chase.closest.time_s > _RECEDING_S) & (
            chase.shot.age_s > params.burn_time_s
        )
        over = ~chase.alive | (chase.closest.miss_m < params.hit_radius_m) | receding
        if bool(over.all()):
            break
        longest_s = arc_s(chase, _PART_OF_TIME_TO_GO, _LONGEST_ARC_S)
        chases.append(pursued(params, chase, line, longest_s))
    return chases


def _path(params: CombatParams, chases: list[Chase], index: int) -> dict[str, Any]:
    """One of the missiles, from now to where it is closest."""
    miss_m, end_s, _ = (field[index].item() for field in chases[-1].closest)
    points: list[Point] = []
    speeds: list[float] = []
    for chase in chases:
        missile, time_s = chase.shot.motion, chase.time_s[index].item()
        if points and time_s > end_s:
            break
        x_m, y_m = missile.x_m[index].item(), missile.y_m[index].item()
        points.append([round(x_m), round(y_m), _time(time_s)])
        speeds.append(missile.speed_mps[index].item())
    return {
        "line": points,
        "no_threat_from": _no_threat_from(speeds),
        "miss_m": round(miss_m),
        "time_s": _time(end_s),
        "hits": miss_m < params.hit_radius_m,
    }


def _no_threat_from(speeds_mps: list[float]) -> int | None:
    """The first point below the speed of sound after one above it."""
    been_fast = False
    for index, speed_mps in enumerate(speeds_mps):
        if been_fast and speed_mps < SPEED_OF_SOUND_MPS:
            return index
        been_fast = been_fast or speed_mps >= SPEED_OF_SOUND_MPS
    return None


def _time(time_s: float) -> float:
    return round(round(time_s / 0.05) * 0.05, 2)
