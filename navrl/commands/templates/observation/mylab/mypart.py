"""The observation mypart."""

import torch
from navrl.envs.combat.sim.geometry import aircraft, focal_enemy, look
from navrl.envs.combat.sim.state import CombatParams, CombatState


class MyPart:
    """The leaf `mypart`: sine and cosine of the nearest enemy's bearing, and its distance."""

    def __init__(self, *, scale_m: float) -> None:
        self.scale_m = scale_m
        self.leaves = {"mypart": (3,)}  # shapes for one aircraft; networks are built from them

    def prepare(self, params: CombatParams, device: torch.device | str) -> None:
        """Build nothing: no tables are needed."""

    def rows(self, params: CombatParams, state: CombatState, me: int) -> dict[str, torch.Tensor]:
        """Return the leaf mypart (3, N) of aircraft `me`."""
        view = look(aircraft(state, me), focal_enemy(params, state, me))
        rows = [view.sin_bearing, view.cos_bearing, view.range_m / self.scale_m]
        return {"mypart": torch.stack(rows)}
