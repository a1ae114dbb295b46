"""The space-time graph as numbers for a policy: 16 rows, clipped to +-5, zeros where no missile flies.

The mirror image exchanges left and right and changes nothing else.
"""

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import (
    MissileView,
    focal_index,
    incoming_missile,
    own_missile,
    picked,
)
from navrl.envs.combat.sim.params import CombatParams
from navrl.envs.combat.sim.prediction import (
    SIDES,
    Line,
    Shot,
    Steered,
    closest_approach,
    three_lines,
)
from navrl.envs.combat.sim.reach import ReachTable
from navrl.envs.combat.sim.spacetime import TEN_TIMES_S, Margins, margins
from navrl.envs.combat.sim.state import CombatState, concatenated, enemies_of

# First margins / 10 km of the own lines if the nearest enemy launched now, then of the enemy's if this craft
# did, each with the time when the better escape is tightest / 60 s. Then the nearest incoming missile and the
# own missile: the least distance / 10 km to its prey on each line, where the escapes are from the missile,
# and its speed / 1000 m/s when nearest to the current line.
STG_NAMES = (
    *(f"defence_{name}" for name in (*SIDES, "critical")),
    *(f"attack_{name}" for name in (*SIDES, "critical")),
    *(f"incoming_{name}" for name in (*SIDES, "speed")),
    *(f"own_missile_{name}" for name in (*SIDES, "speed")),
)
LIMIT = 5.0  # of every row that a policy observes
_DISTANCE_M, _TIME_S, _SPEED_MPS = 10_000.0, 60.0, 1000.0


def stg_rows(params: CombatParams, table: ReachTable, state: CombatState, me: int) -> list[Tensor]:
    """Return the rows of STG_NAMES for aircraft `me`, each (N,)."""
    enemies = enemies_of(params, me)
    mine = _steered(state, torch.zeros_like(state.decision), [me])
    his = _steered(state, focal_index(params, state, me), enemies)
    times = table.at(TEN_TIMES_S)
    incoming, own = incoming_missile(params, state, me), own_missile(params, state, me)
    prey = _steered(state, own.target - enemies[0], enemies)
    # Both questions as one of twice the length: half the graph to compile.
    found = margins(params, times, concatenated(his, mine).motion, concatenated(mine, his))
    rows = [
        *_margin_rows(Margins(*(field.chunk(2)[0] for field in found))),
        *_margin_rows(Margins(*(field.chunk(2)[1] for field in found))),
        *_missile_rows(params, [incoming, own], [mine, prey]),
    ]
    return [row.clamp(-LIMIT, LIMIT) for row in rows]


def _margin_rows(found: Margins) -> list[Tensor]:
    *distances, critical_s = found
    return [*(distance_m / _DISTANCE_M for distance_m in distances), critical_s / _TIME_S]


def _missile_rows(
    params: CombatParams, missiles: list[MissileView], prey: list[Steered]
) -> list[Tensor]:
    """Return four rows for each missile and its prey, all in one batch (missiles, lines, N)."""
    pairs = zip(missiles, prey, strict=True)
    lines = [three_lines(params.fighter, craft, missile.motion) for missile, craft in pairs]
    motions = zip(*(missile.motion for missile in missiles), strict=True)
    shot = Shot(Motion(*map(_over_lines, motions)), _over_lines([m.age_s for m in missiles]))
    starts = zip(*(line.start for line in lines), strict=True)
    steering = zip(*(line[1:] for line in lines), strict=True)
    line = Line(Motion(*map(torch.stack, starts)), *map(torch.stack, steering))
    miss_m, _, speed_mps = closest_approach(params, shot, line)
    rows = []
    for number, missile in enumerate(missiles):
        distances = (miss_m[number] / _DISTANCE_M).unbind(0)
        speed = speed_mps[number, SIDES.index("current")] / _SPEED_MPS
        rows += [torch.where(missile.active, row, 0.0) for row in (*distances, speed)]
    return rows


def _over_lines(fields: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """Stack to (missiles, 1, N)."""
    return torch.stack(list(fields)).unsqueeze(1)


def _steered(state: CombatState, place: Tensor, among: list[int]) -> Steered:
    craft = state.aircraft
    motion = Motion(*(picked(field, place, among) for field in craft.motion))
    return Steered(motion, picked(craft.rudder, place, among), picked(craft.throttle, place, among))
