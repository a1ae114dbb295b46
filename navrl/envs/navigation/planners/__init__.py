"""Planners that fly without learning, and the shield."""

from navrl.envs.navigation.planners.collision_prediction import (
    CollisionPrediction,
    MovingPrediction,
)
from navrl.envs.navigation.planners.greedy import Greedy
from navrl.envs.navigation.planners.orca import Orca
from navrl.envs.navigation.planners.potential_field import PotentialField
from navrl.envs.navigation.planners.shield import NoShield, Shield
from navrl.envs.navigation.planners.sound_shield import SoundShield
from navrl.envs.navigation.planners.static_prediction import StaticPrediction
from navrl.envs.navigation.planners.velocity_obstacles import VelocityObstacles

__all__ = [
    "CollisionPrediction",
    "Greedy",
    "MovingPrediction",
    "NoShield",
    "Orca",
    "PotentialField",
    "Shield",
    "SoundShield",
    "StaticPrediction",
    "VelocityObstacles",
]
