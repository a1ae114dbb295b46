"""The simulator of coverage: pure functions over tensors."""

from navrl.envs.coverage.sim.backhaul import Backhaul, NoBackhaul
from navrl.envs.coverage.sim.params import CoverageParams
from navrl.envs.coverage.sim.radio import Radio

__all__ = ["Backhaul", "CoverageParams", "NoBackhaul", "Radio"]
