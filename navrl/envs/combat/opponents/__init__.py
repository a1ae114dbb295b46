"""Opponents of air combat."""

from navrl.envs.combat.opponents.crank import Crank
from navrl.envs.combat.opponents.crank_seed import CrankSeed
from navrl.envs.combat.opponents.frozen import Frozen
from navrl.envs.combat.opponents.league import League
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.opponents.paced import Paced
from navrl.envs.combat.opponents.phase2 import Phase2
from navrl.envs.combat.opponents.phase3 import Phase3
from navrl.envs.combat.opponents.pursuit import Pursuit
from navrl.envs.combat.opponents.random import Random
from navrl.envs.combat.opponents.stg_rule import StgRule
from navrl.envs.combat.opponents.straight import Straight

__all__ = [
    "Crank",
    "CrankSeed",
    "Frozen",
    "League",
    "Mixture",
    "Paced",
    "Phase2",
    "Phase3",
    "Pursuit",
    "Random",
    "StgRule",
    "Straight",
]
