"""Worlds that episodes are drawn from: maps, routes through them, and how hard they are."""

from navrl.envs.navigation.worlds.pool import Difficulty, WorldPool
from navrl.envs.navigation.worlds.routes import FreeRoutes, PerimeterRoutes

__all__ = ["Difficulty", "FreeRoutes", "PerimeterRoutes", "WorldPool"]
