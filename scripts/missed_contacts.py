"""Measure how many collisions a test at the ends of decisions misses, and how many one of the whole flight.

    .venv/bin/python scripts/missed_contacts.py [--speeds 2 5 10 20] [--flights 4096] [--decisions 40]

Drones of the default model fly through worlds of env=navigation, a new command every second, and nothing
ends them. A contact is a row of decisions in which the drone is nearer to an obstacle than its radius at one
of many points of the curve that the physics flies; it is missed if no decision of the row finds it.
"""

import argparse
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.config.compose import build, compose
from navrl.envs.navigation.sim import drone as drones
from navrl.envs.navigation.sim import moving_obstacles
from navrl.envs.navigation.sim.clearance import clearance_in_sight_m
from navrl.envs.navigation.sim.drone import Drone
from navrl.envs.navigation.sim.nearest_obstacles import nearest, touches_in_flight
from navrl.envs.navigation.sim.static_obstacles import Grid, Worlds
from navrl.run.device import prepare_process
from timing import parser

_POINT_M = 0.01  # between the points of the slow search
_TESTS = ("slow search", "end of the decision", "whole flight")


class Flight(NamedTuple):
    """One decision of all drones."""

    before: Drone
    after: Drone
    knots: list[Tensor]  # positions (3, N) of the physics from before to after


def main() -> None:
    """Print a line for every speed."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--speeds", type=float, nargs="+", default=[2.0, 5.0, 10.0, 20.0])
    options_parser.add_argument("--flights", type=int, default=4096)
    options_parser.add_argument("--decisions", type=int, default=40)
    options = options_parser.parse_args()
    prepare_process(threads=1)
    config = compose(
        "train", ["env=navigation", "compile=off", "world.count=16", "world.renew_episodes=null"]
    )
    env = build(config.env)(num_envs=options.flights, device="cpu", seed=0)
    env.reset()
    print(f"{'m/s':>5} {'kind':>8} {'contacts':>9}   missed by {_TESTS[1]}, by {_TESTS[2]}")
    for speed in options.speeds:
        for kind, found in contacts(env, speed, options).items():
            total = int((rows := _rows(found))[0].sum())
            missed = [f"{int((rows[0] & ~row).sum()) / max(1, total):7.2%}" for row in rows[1:]]
            print(f"{speed:5g} {kind:>8} {total:9d}   {'   '.join(missed)}", flush=True)


@torch.no_grad()
def contacts(env: Any, speed_mps: float, options: argparse.Namespace) -> dict[str, Tensor]:
    """Return for static and moving obstacles where each test finds a contact, bool (tests, decisions, N)."""
    params, state = env.params, env.state
    tables: tuple[Grid, Worlds] = (env.worlds.grid, env.worlds.openings.worlds)
    world, obstacles = state.world.to(torch.int64), state.obstacles
    points = max(2, round(speed_mps * params.decision_s / _POINT_M / 3))
    found: dict[str, list[Tensor]] = {"static": [], "moving": []}
    for number, flight in enumerate(flights(env, speed_mps, options.decisions)):
        before, after = flight.before.position, flight.after.position
        zero = torch.zeros_like(after)
        way = after - before
        curve = list(_fine(flight.knots, points))
        gaps = [clearance_in_sight_m(*tables, world, place, zero) for place in curve]
        static = [
            torch.stack(gaps).amin(0),
            gaps[-1],
            clearance_in_sight_m(*tables, world, after, way),
        ]
        found["static"].append(torch.stack(static) < params.body_radius_m)
        step = torch.full_like(state.decision, float(number))
        moved = moving_obstacles.advance(
            params.moving,
            obstacles,
            state.key,
            step,
            after,
            flight.after.velocity,
            params.decision_s,
        )
        hits = []
        for index, place in enumerate(curve):
            part = index / (len(curve) - 1)
            there = obstacles._replace(
                position=type(obstacles.position)(
                    *(
                        a + part * (b - a)
                        for a, b in zip(obstacles.position, moved.position, strict=True)
                    )
                )
            )
            near = nearest(
                params.moving, there, place, count=params.near_count, range_m=params.near_range_m
            )
            hits.append(near.touches(params.body_radius_m))
        swept = touches_in_flight(
            params.moving, (obstacles, before), (moved, after), params.body_radius_m
        )
        found["moving"].append(torch.stack([torch.stack(hits).any(0), hits[-1], swept]))
        obstacles = moved
    return {kind: torch.stack(rows, 1) for kind, rows in found.items()}


def flights(env: Any, speed_mps: float, decisions: int) -> Iterator[Flight]:
    """Yield the decisions of drones that fly level from where moving obstacles are, in any direction."""
    params, state = env.params, env.state
    draw = torch.Generator().manual_seed(0)
    num_envs, model = state.decision.shape[0], params.drone
    steps = max(1, round(params.decision_s / model.longest_step_s))
    position = torch.rand(3, num_envs, generator=draw) * 2.0 - 1.0
    position = position * torch.tensor([[15.0], [15.0], [1.2]]) + torch.tensor(
        [[0.0], [0.0], [2.0]]
    )
    drone = state.drone._replace(position=position)
    for number in range(decisions):
        if number % round(1.0 / params.decision_s) == 0:
            angle = torch.rand(num_envs, generator=draw) * 2.0 * torch.pi
            command = speed_mps * torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)])
            if number == 0:
                drone = drone._replace(velocity=command)
        before, knots = drone, [drone.position]
        for _ in range(steps):
            drone = drones.advance(model, drone, command, state.factors, params.decision_s / steps)
            knots.append(drone.position)
        yield Flight(before, drone, knots)


def _fine(knots: list[Tensor], points: int) -> Iterator[Tensor]:
    """Yield points of the line through the knots, the first and the last knot among them."""
    yield knots[0]
    for first, last in itertools.pairwise(knots):
        for point in range(1, points + 1):
            yield first + (point / points) * (last - first)


def _rows(found: Tensor) -> Tensor:
    """Return which rows of decisions each test finds, bool (tests, rows), from (tests, decisions, N)."""
    # A decision without any contact parts the flights, and begins the rows that are left out below.
    flat = torch.nn.functional.pad(found, (0, 0, 1, 0)).movedim(-1, 1)
    started = flat[0, :, 1:].to(torch.int64).cumprod(-1).bool()
    flat[:, :, 1:] &= ~started
    flat = flat.flatten(1)
    begins = flat[0].clone()
    begins[1:] &= ~flat[0, :-1]
    row = begins.cumsum(0)
    count = int(row[-1])
    held = torch.zeros(found.shape[0], count + 1, dtype=torch.int64)
    held.index_add_(1, torch.where(flat[0], row, 0), flat.to(torch.int64))
    return held[:, 1:] > 0


if __name__ == "__main__":
    main()
