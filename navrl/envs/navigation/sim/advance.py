"""One decision of N drones among static and moving obstacles."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.envs.core import random
from navrl.envs.navigation.sim import drone as drones
from navrl.envs.navigation.sim import moving_obstacles
from navrl.envs.navigation.sim.clearance import clearance_on_way_m
from navrl.envs.navigation.sim.drone import Factors
from navrl.envs.navigation.sim.lidar import add_noise, cast_at
from navrl.envs.navigation.sim.nearest_obstacles import NearObstacles, nearest, touches_in_flight
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import Ending, NavigationState, Tally, heading, length
from navrl.envs.navigation.sim.static_obstacles import (
    Grid,
    StaticObstacles,
    Worlds,
    in_sight,
)

_NO_CLEARANCE_M = 1e3  # clearance at the start of an episode


class StartTables(NamedTuple):
    """Worlds, and in each of them the starts that episodes draw from, with the lidar's scans there."""

    worlds: Worlds
    first: Tensor  # int64 (), first of the worlds in which new episodes begin
    start: Tensor  # (W, P, 3)
    goal: Tensor  # (W, P, 3)
    scans: Tensor  # (W, P, beams * rings)
    gaps: Tensor  # (W, P), static_gap_m
    moving: Tensor  # (W,), moving obstacles
    stage: Tensor  # (W,), of a curriculum


class Events(NamedTuple):
    """The events of a decision, beside the state."""

    near: NearObstacles
    command: Tensor  # (3, N) by the policy or planner
    flown: Tensor  # (3, N) after the shield


def initial_state(
    params: NavigationParams, openings: StartTables, share: int, key: Tensor
) -> NavigationState:
    """Return the initial states of the episodes with these keys, in `share` worlds from the first."""
    draws = random.uniform(key, random.WORLD, 8)
    world = openings.first + (draws[0] * share).to(torch.int64)
    route = (draws[1] * openings.start.shape[1]).to(torch.int64)
    start, goal, scan = (
        table[world, route].t() for table in (openings.start, openings.goal, openings.scans)
    )
    zero = torch.zeros_like(draws[0])
    never = zero.bool()
    return NavigationState(
        key=key,
        decision=zero,
        world=world.to(torch.int32),
        stage=openings.stage[world],
        start=start,
        goal=goal,
        drone=drones.hovering(params.drone, start, goal),
        obstacles=moving_obstacles.initial_obstacles(
            params.moving, key, start, openings.moving[world]
        ),
        static_gap_m=openings.gaps[world, route],
        scans=scan.expand(1 + params.scan_latency_decisions, *scan.shape),
        pending=torch.zeros((params.pending, *start.shape), device=key.device),
        factors=_factors(params, draws[2:]),
        tally=Tally(zero, zero, zero + _NO_CLEARANCE_M, zero, zero, zero),
        ending=Ending(never, never, never, never, never),
    )


def advance(
    params: NavigationParams,
    grid: Grid,
    worlds: Worlds,
    state: NavigationState,
    command: Tensor,
    flown: Tensor,
) -> tuple[NavigationState, Events]:
    """Return the state at the next decision; `flown` (3, N) is `command` after the shield."""
    on_its_way = torch.cat([flown.unsqueeze(0), state.pending])
    arriving = _arriving(on_its_way, state.factors.latency)
    drone = drones.advance(params.drone, state.drone, arriving, state.factors, params.decision_s)
    obstacles = moving_obstacles.advance(
        params.moving,
        state.obstacles,
        state.key,
        state.decision,
        drone.position,
        drone.velocity,
        params.decision_s,
    )
    after = state._replace(
        decision=state.decision + 1.0, drone=drone, obstacles=obstacles, pending=on_its_way[:-1]
    )
    sight = static_in_sight(grid, worlds, after)
    ranges = scan(params, sight, after)
    near = near_obstacles(params, after)
    way = drone.position - state.drone.position
    gap_m = static_gap_m(params, grid, sight, drone.position, way, ranges.amin(0))
    scans = torch.cat([ranges.unsqueeze(0), state.scans[:-1]])
    after = after._replace(static_gap_m=gap_m, scans=scans)
    events = Events(near, command, flown)
    ending = _ending(params, after, _hits_moving(params, state, after, near), state.ending)
    tally = _tally(params, state, after, events)
    return after._replace(ending=ending, tally=tally), events


def static_in_sight(grid: Grid, worlds: Worlds, state: NavigationState) -> StaticObstacles:
    """Return the static obstacles near the drones."""
    x, y, _ = state.drone.position.unbind(0)
    return in_sight(grid, worlds, state.world.to(torch.int64), x, y)


def scan(params: NavigationParams, sight: StaticObstacles, state: NavigationState) -> Tensor:
    """Return the true range of every beam, (beams * rings, N)."""
    place, direction = state.drone.position.unbind(0), heading(params, state).unbind(0)
    return cast_at(params.lidar, sight, place, direction).flatten(1).t()


def static_gap_m(
    params: NavigationParams,
    grid: Grid,
    sight: StaticObstacles,
    position: Tensor,
    way: Tensor,
    shortest_m: Tensor,
) -> Tensor:
    """Return the least distance (N,) to static obstacles on a flight by way (3, N) to position (3, N).

    With contact=lidar it is the shortest beam at the end, shortest_m, which as published misses what is
    thin, low or high between beams.
    """
    if params.contact == "lidar":
        return shortest_m
    return clearance_on_way_m(sight, position, way).clamp_max(grid.reach_m)


def sensed(params: NavigationParams, state: NavigationState) -> Tensor:
    """Return the observed ranges (beams * rings, N): delayed and with the sensor's errors."""
    return add_noise(params.noise, state.scans[-1], state.key, state.decision, params.lidar.range_m)


def near_obstacles(params: NavigationParams, state: NavigationState) -> NearObstacles:
    """Return the nearest moving obstacles within sight."""
    return nearest(
        params.moving,
        state.obstacles,
        state.drone.position,
        count=params.near_count,
        range_m=params.near_range_m,
    )


def _factors(params: NavigationParams, draws: Tensor) -> Factors:
    gain, lag, latency = (
        low + (high - low) * draw
        for draw, (low, high) in zip(
            draws[:3], (params.vary.gain, params.vary.lag, (0.0, 1.0)), strict=True
        )
    )
    soonest, latest = params.vary.latency_decisions
    # One uniform number of the same variance approximates a normal one well enough.
    wind = (draws[3:6] - 0.5) * (12.0**0.5 * params.vary.wind_mps2)
    return Factors(gain, lag, torch.floor(soonest + (latest + 1 - soonest) * latency), wind)


def _arriving(on_its_way: Tensor, latency: Tensor) -> Tensor:
    """Return the command (3, N) of `latency` decisions ago."""
    found = on_its_way[0]
    for age in range(1, on_its_way.shape[0]):
        found = torch.where(latency == age, on_its_way[age], found)
    return found


def _hits_moving(
    params: NavigationParams, before: NavigationState, after: NavigationState, near: NearObstacles
) -> Tensor:
    """Return where a moving obstacle was hit: at the end as published, or anywhere in the decision."""
    if params.contact == "lidar":
        return near.touches(params.body_radius_m)
    return touches_in_flight(
        params.moving,
        (before.obstacles, before.drone.position),
        (after.obstacles, after.drone.position),
        params.body_radius_m,
    )


def _ending(
    params: NavigationParams, state: NavigationState, hit_moving: Tensor, before: Ending
) -> Ending:
    position = state.drone.position
    hit_static = state.static_gap_m < params.body_radius_m
    height = position[2]
    outside = (height < params.floor_m) | (height > params.ceiling_m)
    if params.side_limit_m is not None:
        outside = outside | (position[:2].abs() > params.side_limit_m).any(0)
    at_goal = (state.goal - position).square().sum(0) < params.goal_radius_m**2
    flying = ~(before.reached | hit_static | hit_moving | outside)
    return Ending(
        reached=before.reached | (at_goal & flying),
        hit_static=hit_static,
        hit_moving=hit_moving & ~hit_static,
        outside=outside & ~hit_static & ~hit_moving,
        at_goal=at_goal,
    )


def _tally(
    params: NavigationParams, before: NavigationState, after: NavigationState, events: Events
) -> Tally:
    tally, flying = before.tally, ~before.ending.reached
    way = length(after.drone.position - before.drone.position)
    jolt = length(after.drone.velocity - before.drone.velocity)
    closest = torch.minimum(after.static_gap_m, events.near.gap_m().amin(0))
    change = length(events.flown - events.command)
    return Tally(
        time_s=tally.time_s + params.decision_s * flying,
        path_m=tally.path_m + way * flying,
        clearance_m=torch.minimum(tally.clearance_m, closest),
        jolt_mps=tally.jolt_mps + jolt,
        interventions=tally.interventions + (change > 0.0),
        change_mps=tally.change_mps + change,
    )
