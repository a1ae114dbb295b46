"""Recordings of drone navigation: tracks of drone and obstacles, lidar ranges, and the outcome.

All episodes are played together, one per env. Ten knots a second are kept, and the last decision of every
episode: a drone accelerates so little that a cubic between two knots is exact to a few millimetres.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from navrl.envs.navigation.sim.advance import near_obstacles, sensed
from navrl.envs.navigation.sim.params import NavigationParams
from navrl.envs.navigation.sim.state import NavigationState, heading
from navrl.envs.navigation.sim.static_obstacles import Worlds, is_present
from navrl.view.episodes import Act, first_episodes

KNOT_S = 0.1
SIGHT_M = 12.0  # moving obstacles that never come this close are left out
_KINK_MPS = 0.02  # a change of velocity that rounding does not explain

Point = tuple[float, float, float]


class Box(NamedTuple):
    """An upright box, turned about z."""

    x_m: float
    y_m: float
    half_x_m: float  # along its own x axis
    half_y_m: float
    yaw_rad: float
    bottom_m: float
    top_m: float


class Cylinder(NamedTuple):
    """An upright cylinder."""

    x_m: float
    y_m: float
    radius_m: float
    bottom_m: float
    top_m: float


class Landscape(NamedTuple):
    """The obstacles that stand in a world."""

    boxes: list[Box]
    cylinders: list[Cylinder]


class Mover(NamedTuple):
    """A moving obstacle; between two of its knots it flies straight and evenly."""

    which: int  # its index, which determines its width and whether it is a column
    time_s: list[float]
    x_m: list[float]
    y_m: list[float]
    z_m: list[float]


class Trip(NamedTuple):
    """One episode; lists have an entry per knot."""

    number: int  # of the episode, among those of the seed
    world: int  # index into the landscapes
    start: Point
    goal: Point
    time_s: list[float]
    position_m: list[Point]
    velocity_mps: list[Point]
    beam0_rad: list[float]  # where the first beam of the lidar points
    ranges_m: Tensor  # (knots, beams, rings) as observed: with delay and errors, if there are any
    clearance_m: list[float]  # from the drone's centre to the nearest obstacle, at most lidar range
    changed_mps: list[float]  # by the shield, on average on the way to the knot; 0: no change
    movers: list[Mover]
    outcome: str  # the rate of the env that this episode counts for
    ended_by: str  # the last thing that happened: it may have reached its goal before
    reached_s: float | None


class NavigationRecording(NamedTuple):
    """The recording of all episodes."""

    params: NavigationParams
    landscapes: list[Landscape]
    trips: list[Trip]


class Frame(NamedTuple):
    """The recorded state of all envs after a decision; env axis last, on the CPU."""

    decision: int
    position: Tensor  # (3, N)
    velocity: Tensor  # (3, N)
    beam0: Tensor  # (2, N) cosine and sin
    ranges: Tensor  # (beams * rings, N)
    clearance: Tensor  # (N,)
    changed: Tensor  # (N,) m/s, sum over all decisions
    movers: Tensor  # (3, D, N)
    endings: Tensor  # bool (3, N): static, moving, outside
    reached: Tensor  # bool (N,)
    time_s: Tensor  # (N,) until the goal was reached


def play_trips(env: Any, policy: Act, *, first: int) -> NavigationRecording:
    """Play and record the first episode of every env; their numbers begin with `first`."""
    params: NavigationParams = env.params
    every = max(1, round(KNOT_S / params.decision_s))
    played = first_episodes(env, policy)
    next(played)
    opening: NavigationState = env.state
    frames = [frame_of(params, 0, opening)]
    lengths = torch.zeros(env.batch_size, dtype=torch.int64)
    ends = torch.zeros(len(env.episode_keys), *env.batch_size)
    for decision, (stepped, running) in enumerate(played, start=1):
        lengths += running
        ended = running & stepped.get(("next", "done")).squeeze(-1).cpu()
        if decision % every == 0 or bool(ended.any()):
            frames.append(frame_of(params, decision, env.state))
        ends = torch.where(ended, stepped.get(("next", "episode")).t().cpu(), ends)
    rates = {name: ends[env.episode_keys.index(name)] > 0.5 for name in env.rate_names}
    worlds, index = torch.unique(opening.world.cpu(), return_inverse=True)
    trips = []
    for number, length in enumerate(lengths.tolist()):
        own = [f for f in frames if f.decision % every == 0 or f.decision == length]
        own = [of_env(frame, number) for frame in own if frame.decision <= length]
        outcome = next(name for name, rate in rates.items() if bool(rate[number]))
        start, goal = (point_of(place[:, number]) for place in (opening.start, opening.goal))
        trips.append(trip_of(params, first + number, int(index[number]), start, goal, own, outcome))
    landscapes = [landscape_of(env.worlds.openings.worlds, world) for world in worlds.tolist()]
    return NavigationRecording(params, landscapes, trips)


def frame_of(params: NavigationParams, decision: int, state: NavigationState) -> Frame:
    """Return what is recorded of the state of all envs."""
    ending, near = state.ending, near_obstacles(params, state)
    kept = Frame(
        decision=decision,
        position=state.drone.position,
        velocity=state.drone.velocity,
        beam0=heading(params, state),
        ranges=sensed(params, state),
        clearance=torch.minimum(state.static_gap_m, near.gap_m().amin(0)),
        changed=state.tally.change_mps,
        movers=torch.stack(state.obstacles.position),
        endings=torch.stack([ending.hit_static, ending.hit_moving, ending.outside]),
        reached=ending.reached,
        time_s=state.tally.time_s,
    )
    # Copies: the simulator may write the next step where this one lies.
    return Frame(decision, *(field.detach().cpu().clone() for field in kept[1:]))


def of_env(frame: Frame, env: int) -> Frame:
    """Return the frame of one env."""
    return Frame(frame.decision, *(field[..., env] for field in frame[1:]))


def trip_of(
    params: NavigationParams,
    number: int,
    world: int,
    start: Point,
    goal: Point,
    frames: list[Frame],
    outcome: str,
) -> Trip:
    """Return the episode that these frames, all of one env, describe."""
    last = frames[-1]
    times_s = [frame.decision * params.decision_s for frame in frames]
    return Trip(
        number=number,
        world=world,
        start=start,
        goal=goal,
        time_s=times_s,
        position_m=[point_of(frame.position) for frame in frames],
        velocity_mps=[point_of(frame.velocity) for frame in frames],
        beam0_rad=[math.atan2(float(f.beam0[1]), float(f.beam0[0])) for f in frames],
        ranges_m=torch.stack(
            [f.ranges.reshape(params.lidar.beams, params.lidar.rings) for f in frames]
        ),
        clearance_m=[float(frame.clearance) for frame in frames],
        changed_mps=_changed(frames),
        movers=_movers(frames, times_s),
        outcome=outcome,
        ended_by=_ended_by(params, last),
        reached_s=float(last.time_s) if bool(last.reached) else None,
    )


def _ended_by(params: NavigationParams, last: Frame) -> str:
    for name, happened in zip(
        ("collision_static", "collision_moving", "outside"), last.endings.tolist(), strict=True
    ):
        if happened:
            return name
    return "success" if params.goal_ends and bool(last.reached) else "timeout"


def _changed(frames: list[Frame]) -> list[float]:
    """Return the mean change per decision between two knots."""
    means = [
        float(after.changed - before.changed) / (after.decision - before.decision)
        for before, after in pairwise(frames)
    ]
    return [0.0, *means]


def _movers(frames: list[Frame], times_s: list[float]) -> list[Mover]:
    """Return the moving obstacles that come near, at the knots where they turn."""
    places = torch.stack([frame.movers for frame in frames])  # (K, 3, D)
    drone = torch.stack([frame.position for frame in frames])
    apart_m = (places[:, :2] - drone[:, :2, None]).square().sum(1).sqrt()
    steps_s = torch.tensor(times_s).diff()[:, None, None]
    velocity = places.diff(dim=0) / steps_s
    turns = torch.ones(places.shape[0], places.shape[2], dtype=torch.bool)
    turns[1:-1] = (velocity.diff(dim=0).abs() > _KINK_MPS).any(1)
    found = []
    for which in (apart_m.amin(0) < SIGHT_M).nonzero().squeeze(-1).tolist():
        knots = turns[:, which].nonzero().squeeze(-1)
        x_m, y_m, z_m = places[knots, :, which].t().tolist()
        found.append(Mover(which, [times_s[knot] for knot in knots.tolist()], x_m, y_m, z_m))
    return found


def landscape_of(worlds: Worlds, world: int) -> Landscape:
    """Return what stands in a world."""
    boxes, cylinders = worlds.boxes, worlds.cylinders
    return Landscape(
        boxes=[
            Box(x, y, half_x, half_y, math.atan2(sin, cos), bottom, top)
            for x, y, half_x, half_y, cos, sin, bottom, top in _present(boxes, world)
        ],
        cylinders=[Cylinder(*row) for row in _present(cylinders, world)],
    )


def _present(obstacles: Any, world: int) -> list[list[float]]:
    rows = torch.stack([field[world] for field in obstacles], -1).cpu()
    return rows[is_present(rows[:, 0])].tolist()


def point_of(place: Tensor) -> Point:
    """Return a place (3,) as numbers."""
    x, y, z = place.tolist()
    return x, y, z
