"""From the simulator's state to what a drone perceives: what the policy is told, and no more."""

from navrl.planners.base import Perception
from navrl.sims.lidar_noise import noisy
from navrl.sims.navigation import near_obstacles
from navrl.sims.navigation_params import NavigationParams
from navrl.sims.navigation_state import NavigationState, heading


def perceive(params: NavigationParams, state: NavigationState) -> Perception:
    """The scan with its noise and its delay, and the nearest moving obstacles."""
    near = near_obstacles(params, state)
    scan = noisy(params.noise, state.scans[-1], state.key, state.decision, params.lidar.range_m)
    return Perception(
        position=state.drone.position,
        velocity=state.drone.velocity,
        goal=state.goal,
        heading=heading(params, state),
        ranges=scan.view(params.lidar.beams, params.lidar.rings, -1),
        near_offset=near.offset,
        near_velocity=near.velocity,
        near_radius_m=near.radius_m,
        near_half_height_m=near.half_height_m,
        near_upright=near.upright,
        near_present=near.present,
    )
