"""Worlds of obstacles and the routes through them."""

from navrl.envs.navigation.worlds.difficulty import Difficulty
from navrl.envs.navigation.worlds.file import UserMap
from navrl.envs.navigation.worlds.forest import Block, Column, ForestMap
from navrl.envs.navigation.worlds.pillars import NavRLMap
from navrl.envs.navigation.worlds.routes import FreeRoutes, PerimeterRoutes
from navrl.envs.navigation.worlds.tables import WorldTables

__all__ = [
    "Block",
    "Column",
    "Difficulty",
    "ForestMap",
    "FreeRoutes",
    "NavRLMap",
    "PerimeterRoutes",
    "UserMap",
    "WorldTables",
]
