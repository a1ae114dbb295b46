"""Moving obstacles for tests: parameters, keys, and flights of many steps."""

import torch

from navrl.envs.navigation.sim.moving_obstacles import (
    MODES,
    MovingObstacles,
    MovingParams,
    Triple,
    advance,
    initial_obstacles,
)
from tests.envs.playing import keys

DT_S = 0.05


def moving_params(mode="waypoint", **changes):
    """One mode for all; everything else as in the original."""
    options = {
        "count": 80,
        "half_extent_m": 20.0,
        "height_m": 4.5,
        "speed_mps": (0.5, 1.5),
        "local_range_m": (5.0, 5.0, 4.5),
        "modes": {name: float(name == mode) for name in MODES},
        "arrival_m": 0.5,
        "re_aim_every_s": None,
        "rest_s": 2.0,
        "look_ahead_s": 3.0,
        "clear_of_start_m": 1.5,
    }
    return MovingParams(**(options | changes))


def begun(params, count, *, start=(100.0, 100.0, 2.0), active=None, seed=0):
    """The obstacles of `count` envs; the drone is far away by default."""
    active = torch.tensor(params.count if active is None else active)
    start = torch.as_tensor(start, dtype=torch.float32).reshape(3, -1).expand(3, count)
    return initial_obstacles(params, keys(count, seed), start, active)


def flown(
    params, obstacles, steps, *, first=0, drone=(100.0, 100.0, 2.0), velocity=(0.0, 0.0, 0.0)
):
    """The obstacles after each of these steps, with a drone that stays where it is."""
    count = obstacles.position.x.shape[1]
    drone, velocity = (
        torch.tensor(vector).reshape(3, 1).expand(3, count) for vector in (drone, velocity)
    )
    for step in range(first, first + steps):
        at = torch.full((count,), float(step))
        obstacles = advance(params, obstacles, keys(count), at, drone, velocity, DT_S)
        yield obstacles


def vectors(triple):
    """(3, D, N) in float64."""
    return torch.stack(triple).double()


def placed(rows, *, velocity=None, count=80):
    """Obstacles of one env at these places by their index, everybody else far away."""
    position = torch.full((3, count, 1), 1e6)
    speed = torch.zeros(3, count, 1)
    for index, place in rows.items():
        position[:, index, 0] = torch.tensor(place)
        if velocity is not None:
            speed[:, index, 0] = torch.tensor(velocity[index])
    here, moving = Triple(*position), Triple(*speed)
    return MovingObstacles(here, moving, here, here)
