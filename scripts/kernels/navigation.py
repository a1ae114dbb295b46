"""The kernel of navigation.c: compiled by gcc, called on the simulator's tensors."""

import math
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from kernels import FAST, Bound, compiled
from navrl.envs.navigation.sim.drone import Drone, SecondOrder
from navrl.envs.navigation.sim.lidar import Lidar
from navrl.envs.navigation.sim.moving_obstacles import MovingParams, Triple
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState
from navrl.envs.navigation.sim.static_obstacles import Grid, Worlds

BLOCK, WINDOW = 64, 16  # envs at a time, and neighbouring rays, as in the kernel
STATE_LEAVES = 39  # tensors of a NavigationState that the kernel knows
NO_LIMIT_M = 1e30
KERNEL = Path(__file__).with_name("navigation.c")


class Outcome(NamedTuple):
    """The tensors that one call of the kernel fills."""

    state: NavigationState
    near: NearObstacles


class NavigationKernel:
    """scripts/kernels/navigation.c, compiled for these constants and for tables of this size."""

    def __init__(
        self, params: NavigationParams, grid: Grid, worlds: Worlds, *, shortcuts: bool
    ) -> None:
        _check_known(params)
        self._near_count = params.near_count
        self._tables = worlds
        macros = _macros(params, grid, worlds) | {"SHORTCUTS": int(shortcuts)}
        library = compiled(KERNEL, macros, FAST)
        library.prepare()
        self._advance = library.advance

    def bound(self, state: NavigationState, command: Tensor) -> Bound[Outcome]:
        """Return a call for one decision from this state with velocities (3, N)."""
        num_envs, leaves = command.shape[-1], len(tree_leaves(state))
        if num_envs % BLOCK or leaves != STATE_LEAVES:
            raise SystemExit(
                f"{num_envs} envs with {leaves} tensors in NavigationState; the kernel knows multiples of "
                f"{BLOCK} envs and {STATE_LEAVES} tensors; change --num-envs or scripts/kernels/navigation.c"
            )
        state = tree_map(Tensor.contiguous, state)
        rows = (self._near_count, num_envs)
        flags = (torch.empty(rows, dtype=torch.bool) for _ in range(2))
        vectors = (torch.empty(3, *rows) for _ in range(2))
        near = NearObstacles(*vectors, torch.empty(rows), torch.empty(rows), *flags)
        after = _room(state)
        return Bound(
            self._advance,
            Outcome(after, near),
            tree_leaves(state),
            tree_leaves(self._tables),
            command.contiguous(),
            tree_leaves(after),
            near,
            num_envs,
        )


def under_way(
    params: NavigationParams, state: NavigationState, draw: torch.Generator
) -> tuple[NavigationState, Tensor]:
    """Return the state with drones and moving obstacles anywhere on their ways, and commands (3, N).

    At the start many drones are outside of the field, where there is nothing to see.
    """
    num_envs, obstacles = state.decision.shape[0], state.obstacles
    done = torch.rand(num_envs, generator=draw)
    position = state.start + done * (state.goal - state.start)
    velocity, command = params.speed_limit_mps * (
        2.0 * torch.rand(2, 3, num_envs, generator=draw) - 1.0
    )
    done = torch.rand(obstacles.home.x.shape, generator=draw)
    place = (a + done * (b - a) for a, b in zip(obstacles.position, obstacles.goal, strict=True))
    drone = state.drone._replace(position=position, velocity=velocity)
    obstacles = obstacles._replace(position=Triple(*place))
    return state._replace(drone=drone, obstacles=obstacles), command


def _room(state: NavigationState) -> NavigationState:
    """Return a state for the outcome; tensors that no decision changes are the input's own."""
    drone, obstacles, tally = state.drone, state.obstacles, state.tally
    changing = (state.decision, drone, obstacles._replace(home=()), state.static_gap_m, state.scans)
    decision, drone, moved, static_gap_m, scans = tree_map(torch.empty_like, changing)
    sums = tree_map(torch.empty_like, tally)._replace(
        interventions=tally.interventions, change_mps=tally.change_mps
    )
    return state._replace(
        decision=decision,
        drone=Drone(*drone),
        obstacles=moved._replace(home=obstacles.home),
        static_gap_m=static_gap_m,
        scans=scans,
        tally=sums,
        ending=tree_map(torch.empty_like, state.ending),
    )


def _check_known(params: NavigationParams) -> None:
    known = {
        "drone": (type(params.drone).__name__, "SecondOrder"),
        "lidar.rings": (params.lidar.rings, 4),
        "scan_latency_decisions": (params.scan_latency_decisions, 0),
        "vary.latency_decisions": (params.pending, 0),
        "moving.re_aim_every_s": (params.moving.re_aim_every_s, None),
    }
    for name, (value, only) in known.items():
        if value != only:
            raise SystemExit(
                f"env.sim.{name} = {value}; the kernel knows {only} only; "
                "change that or scripts/kernels/navigation.c"
            )
    if params.lidar.beams < WINDOW:
        raise SystemExit(
            f"env.sim.lidar.beams = {params.lidar.beams}; the kernel knows {WINDOW} or more; "
            "change that or scripts/kernels/navigation.c"
        )


def _macros(params: NavigationParams, grid: Grid, worlds: Worlds) -> dict[str, float]:
    """Return every constant."""
    drone = params.drone
    assert isinstance(drone, SecondOrder)
    side_m = NO_LIMIT_M if params.side_limit_m is None else params.side_limit_m
    numbers = {
        **{"DECISION_S": params.decision_s, "BODY_M": params.body_radius_m},
        **{"GAIN_PER_S": drone.gain_per_s, "LAG_S": drone.lag_s},
        **{"HORIZONTAL_MPS2": drone.horizontal_limit_mps2},
        **{"VERTICAL_MPS2": drone.vertical_limit_mps2},
        **{"GOAL_RADIUS_M": params.goal_radius_m, "NEAR_RANGE_M": params.near_range_m},
        **{"FLOOR_M": params.floor_m, "CEILING_M": params.ceiling_m, "SIDE_LIMIT_M": side_m},
        **{"GRID_HALF_M": grid.half_extent_m, "CELL_M": grid.cell_m, "REACH_M": grid.reach_m},
        **_moving_numbers(params.moving, params.decision_s),
        **_lidar_numbers(params.lidar),
    }
    counts = {
        "STEPS": max(1, math.ceil(params.decision_s / drone.longest_step_s - 1e-9)),
        **{"COUNT": params.moving.count, "NEAR": params.near_count, "SIDE": grid.side},
        **{"CURRENT": int(params.frame == "current"), "EXACT": int(params.contact == "exact")},
        **{"BOXES": worlds.boxes.x.shape[1], "CYLINDERS": worlds.cylinders.x.shape[1]},
        "BOX_SLOTS": worlds.box_cells.shape[-1],
        "BEAMS": params.lidar.beams,
        "CYLINDER_SLOTS": worlds.cylinder_cells.shape[-1],
    }
    return {name: float(value) for name, value in numbers.items()} | counts


def _moving_numbers(moving: MovingParams, decision_s: float) -> dict[str, float]:
    shares = (moving.modes[name] for name in ("stop_and_go", "bouncing", "crossing", "waypoint"))
    names = ("STOP_SHARE", "BOUNCE_SHARE", "CROSS_SHARE", "WAY_SHARE")
    reach = zip(("REACH_X_M", "REACH_Y_M", "REACH_Z_M"), moving.local_range_m, strict=True)
    speed = zip(("SLOW_MPS", "FAST_MPS"), moving.speed_mps, strict=True)
    return {
        **{"HALF_M": moving.half_extent_m, "HEIGHT_M": moving.height_m},
        **{"ARRIVAL_M": moving.arrival_m, "LOOK_AHEAD_S": moving.look_ahead_s},
        "REST_CHANCE": min(1.0, decision_s / moving.rest_s),
        **dict(chain(zip(names, shares, strict=True), reach, speed)),
    }


def _lidar_numbers(lidar: Lidar) -> dict[str, float]:
    # Half a window, less the beam that it may be off its middle and a little for the kernel's arc tangent.
    widest = min(0.5 * math.pi, (WINDOW / 2 - 1.5) * 2.0 * math.pi / lidar.beams - 1e-3)
    return {
        "RANGE_M": lidar.range_m,
        "WIDEST_SIN": math.sin(widest),
        "RING_LOW_DEG": lidar.ring_low_deg,
        "RING_STEP_DEG": (lidar.ring_high_deg - lidar.ring_low_deg) / max(1, lidar.rings - 1),
    }
