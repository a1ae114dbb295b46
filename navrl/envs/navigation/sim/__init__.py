"""The simulator of drone navigation: pure functions over tensors."""

from navrl.envs.navigation.sim.drone import FirstOrder, Kinematic, SecondOrder
from navrl.envs.navigation.sim.lee_quadrotor import LeeQuadrotor
from navrl.envs.navigation.sim.lidar import Lidar, LidarNoise
from navrl.envs.navigation.sim.moving_obstacles import MovingParams
from navrl.envs.navigation.sim.params import NavigationParams, Variation

__all__ = [
    "FirstOrder",
    "Kinematic",
    "LeeQuadrotor",
    "Lidar",
    "LidarNoise",
    "MovingParams",
    "NavigationParams",
    "SecondOrder",
    "Variation",
]
