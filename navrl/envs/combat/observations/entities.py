"""The observation of teams: `ego`, and a set of all other aircraft.

The set has the team mates first and then the enemies, both in the order of their index, so that choice j
of an action's target is enemy j. Every row holds, seen from the own nose and clipped to +-5:

 0        is an enemy
 1 .. 9   log range, range, sine and cosine of the bearing, sine and cosine of its heading minus the own,
          speed, closing speed, line-of-sight rate
 10       an own missile flies at it
 11       a missile of its own flies at this aircraft
 12       any missile flies at it: an enemy is taken care of, a mate is in danger
The mirror image negates 3, 5 and 9. Rows of the dead are 0 and masked.
"""

from types import MappingProxyType

import torch
from torch import Tensor

from navrl.config.checks import require
from navrl.envs.combat.observations.ego import EGO_NAMES, EGO_SIZE, GEOMETRY, ego_rows, geometry
from navrl.envs.combat.observations.spacetime import LIMIT
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.geometry import aircraft, look
from navrl.envs.combat.sim.state import CombatParams, CombatState
from navrl.envs.core.reductions import any_row

READS = CombatParams  # the constants that these observations need

ENTITY_SIZE = 13
_SHOTS = ("an own missile flies at it", "its missile flies at us", "any missile flies at it")


class Entities:
    """`ego` in 32 numbers, `entities`, and a mask of those alive."""

    names = MappingProxyType({"ego": EGO_NAMES, "entities": ("is an enemy", *GEOMETRY, *_SHOTS)})

    def __init__(self, *, team_size: int) -> None:
        self.team_size = team_size
        others = 2 * team_size - 1
        self.leaves: dict[str, tuple[int, ...]] = {
            "ego": (EGO_SIZE,),
            "entities": (others, ENTITY_SIZE),
            "entities_mask": (others,),
        }

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Raise if the teams have another size than the leaves."""
        fits, expected = (
            params.team_size == self.team_size,
            f"{params.team_size}, the aircraft on a side",
        )
        require(fits, "observation.team_size", self.team_size, expected)

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, Tensor]:
        """Return the leaves ego (32, N), entities (E, F, N) and entities_mask (E, N)."""
        others = _others(params, me)
        motion = Motion(*(_gathered(field, others) for field in state.aircraft.motion))
        alive = _gathered(state.aircraft.alive, others)
        view = look(aircraft(state, me), motion)
        mates, enemies = view.range_m[: self.team_size - 1], view.range_m[self.team_size - 1 :]
        is_enemy = torch.cat([torch.zeros_like(mates), torch.ones_like(enemies)])
        seen = [is_enemy, *geometry(view, motion.speed_mps), *_shots(state, others, me)]
        entities = torch.stack(seen, 1).clamp(-LIMIT, LIMIT)
        return {
            "ego": torch.stack(ego_rows(params, state, me)),
            "entities": torch.where(alive.unsqueeze(1), entities, 0.0),
            "entities_mask": alive,
        }


def _shots(state: CombatState, others: list[slice], me: int) -> list[Tensor]:
    """Return columns 10 to 12, each (E, N)."""
    active, target = state.missiles.active, state.missiles.target
    mine, theirs, anybodys = [], [], []
    for other in _indices(others):
        at_it = active & (target == other)
        mine.append(any_row(at_it[me]))
        theirs.append(any_row(active[other] & (target[other] == me)))
        anybodys.append(any_row(at_it.flatten(0, 1)))
    return [torch.stack(flags).float() for flags in (mine, theirs, anybodys)]


def _others(params: CombatParams, me: int) -> list[slice]:
    """Return the mates before and after me, and the enemies."""
    size, team = params.team_size, params.teams[me]
    first, enemies = team * size, (1 - team) * size
    return [slice(first, me), slice(me + 1, first + size), slice(enemies, enemies + size)]


def _indices(others: list[slice]) -> list[int]:
    return [index for part in others for index in range(part.start, part.stop)]


def _gathered(field: Tensor, others: list[slice]) -> Tensor:
    """Return their rows of a field (A, N): (E, N)."""
    return torch.cat([field[part] for part in others])
