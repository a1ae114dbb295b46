"""The simulator of drone navigation: pure functions over tensors."""

from navrl.envs.navigation.sim.drone import FirstOrder, Kinematic, SecondOrder
from navrl.envs.navigation.sim.lee import Lee
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.lidar_noise import LidarNoise
from navrl.envs.navigation.sim.moving_params import MovingParams
from navrl.envs.navigation.sim.params import NavigationParams, Variation

__all__ = [
    "FirstOrder",
    "Kinematic",
    "Lee",
    "Lidar",
    "LidarNoise",
    "MovingParams",
    "NavigationParams",
    "SecondOrder",
    "Variation",
]
