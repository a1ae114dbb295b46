"""From the simulator's state to what a drone perceives: what the policy is told, and no more."""

from navrl.envs.navigation.planners.base import Perception
from navrl.envs.navigation.sim.advance import near_obstacles, sensed
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState, heading


def perceive(params: NavigationParams, state: NavigationState) -> Perception:
    """The scan with its noise and its delay, and the nearest moving obstacles."""
    near = near_obstacles(params, state)
    return Perception(
        position=state.drone.position,
        velocity=state.drone.velocity,
        goal=state.goal,
        heading=heading(params, state),
        ranges=sensed(params, state).view(params.lidar.beams, params.lidar.rings, -1),
        near_offset=near.offset,
        near_velocity=near.velocity,
        near_radius_m=near.radius_m,
        near_half_height_m=near.half_height_m,
        near_upright=near.upright,
        near_present=near.present,
    )
