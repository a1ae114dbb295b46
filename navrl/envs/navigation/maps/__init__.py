"""Maps: the static obstacles of a world, drawn at random or read from a file."""

from navrl.envs.navigation.maps.forest import Block, Column, ForestMap
from navrl.envs.navigation.maps.pillars import PillarMap
from navrl.envs.navigation.maps.user_map import Scale, UserMap

__all__ = ["Block", "Column", "ForestMap", "PillarMap", "Scale", "UserMap"]
