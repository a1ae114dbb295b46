"""Observations of air combat."""

from navrl.envs.combat.observations.ego import Ego
from navrl.envs.combat.observations.entities import Entities
from navrl.envs.combat.observations.legacy import Dict10, Warp21

__all__ = ["Dict10", "Ego", "Entities", "Warp21"]
