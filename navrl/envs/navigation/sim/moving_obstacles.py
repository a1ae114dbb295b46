"""Moving obstacles: every env has its own, and they pass through static ones.

The first half are floating blocks that move in three dimensions, the second half upright columns that
move in two; either half has a quarter of each width. The mode of an obstacle is one of:
    waypoint     straight to a goal within its territory, then to the next
    bouncing     straight on; the faces of the box reflect it
    crossing     like waypoint, but the goal is where the drone will be, if that is in its territory
    stop_and_go  like waypoint, with a rest at every goal
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.config.checks import require, require_number
from navrl.envs.core import random
from navrl.envs.navigation.sim.static_obstacles import FAR_M

MODES = ("waypoint", "bouncing", "crossing", "stop_and_go")
WIDTHS_M = (0.25, 0.5, 0.75, 1.0)
KINDS = 2 * len(WIDTHS_M)  # blocks and columns of every width
BLOCK_HEIGHT_M, COLUMN_HEIGHT_M = 1.0, 5.0


@dataclass(frozen=True, kw_only=True)
class MovingParams:
    """The options of moving obstacles; Python numbers, so a compiled step folds them in."""

    count: int  # the largest number, a multiple of the 8 kinds
    half_extent_m: float  # of the box, along x and y
    height_m: float  # of the box
    speed_mps: tuple[float, float]  # every obstacle draws one with every goal
    local_range_m: tuple[float, float, float]  # a territory is this far either side of a home
    modes: Mapping[str, float]  # shares of the modes
    arrival_m: float  # a goal this near is reached
    re_aim_every_s: float | None  # null: on arrival; else all turn to their goals at these times
    rest_s: float  # mean time that stop_and_go stands still
    look_ahead_s: float  # crossing predicts the drone at most so far ahead
    clear_of_start_m: float  # no obstacle begins nearer to the drone

    def __post_init__(self) -> None:
        """Raise ConfigError for impossible numbers."""
        whole = self.count >= KINDS and self.count % KINDS == 0
        self._require(
            "count", whole, f"a multiple of {KINDS}, {KINDS} or more (for none: 0 active)"
        )
        for name in ("half_extent_m", "height_m", "arrival_m", "rest_s"):
            require_number(f"env.sim.moving.{name}", getattr(self, name), above=0.0)
        for name in ("look_ahead_s", "clear_of_start_m"):
            require_number(f"env.sim.moving.{name}", getattr(self, name), least=0.0)
        slow, fast = self.speed_mps
        self._require("speed_mps", 0.0 < slow <= fast, "[low, high] with 0 < low <= high")
        self._require("local_range_m", min(self.local_range_m) >= 0.0, "three numbers, 0 or more")
        every_s = self.re_aim_every_s
        self._require("re_aim_every_s", every_s is None or every_s > 0.0, "more than 0, or null")
        shares = self.modes.values()
        usable = set(self.modes) == set(MODES) and min(shares) >= 0.0 and sum(shares) > 0.0
        self._require("modes", usable, f"shares of 0 or more, not all 0, for {', '.join(MODES)}")

    def _require(self, name: str, satisfied: bool, expected: str) -> None:
        require(satisfied, f"env.sim.moving.{name}", getattr(self, name), expected)


def radius_m(params: MovingParams, index: Tensor) -> Tensor:
    """Return half the width of the obstacles with these indices."""
    quarter = index * KINDS // params.count % len(WIDTHS_M)
    return (quarter + 1) * (0.5 * WIDTHS_M[0])


def is_column(params: MovingParams, index: Tensor) -> Tensor:
    """Return the mask of the indices that are columns."""
    return index >= params.count // 2


_COLUMN_Z_M = 0.5 * COLUMN_HEIGHT_M
_LEAST_M = 1e-6  # a shorter way has no direction
# Steps of the additive sequence whose points lie farthest apart in a square, for any number of points: the
# powers of 1 / 1.3247, the root of x^3 = x + 1. The third is the golden section, for the height.
_SPREAD = (0.7548776662466927, 0.5698402909980532, 0.6180339887498949)
# The fraction of the square root of 2, unrelated to the steps above.
_SPREAD_MODES = 0.41421356237309515
# The same for the five draws of a step: powers of 1 / 1.1347, the root of x^6 = x + 1.
_SPREAD_DRAWS = (
    0.8812714616335696,
    0.7766393890897682,
    0.6844301295853426,
    0.6031687406857282,
    0.5315553977157292,
)
# The reaction of an obstacle at the end of a step; numbers, since flags (D, N) in memory cost ten times more.
_GO_ON, _HALT, _RENEW, _AIM, _TURN, _MEET = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0
_UNDER_WAY, _NOT_THERE = 2.0, 3.0  # besides a number in [0, 1) for an obstacle at rest


class Triple(NamedTuple):
    """Coordinates, any shape."""

    x: Tensor
    y: Tensor
    z: Tensor


class MovingObstacles(NamedTuple):
    """D obstacles in each of N envs, fields (D, N); absent ones lie at x = y = FAR_M."""

    position: Triple
    velocity: Triple
    goal: Triple
    home: Triple  # the middle of its territory


def initial_obstacles(
    params: MovingParams, key: Tensor, start: Tensor, active: Tensor
) -> MovingObstacles:
    """Return the obstacles of the episodes with these keys, for drones at start (3, N); `active` () exist.

    The homes are one sequence of well spread points, shifted around the map by the episode; its first
    points are well spread too, and a fair choice of kinds.
    """
    rank = _rank(params, key)
    home = _homes(params, key, rank)
    position = _cleared(params, home, start)
    goal, speed_mps, _ = _drawn(params, home, key, torch.full_like(key, -1))
    velocity = _towards(position, goal, speed_mps)
    present = rank < active
    return MovingObstacles(
        position=_where(present, position, _nowhere(position)),
        velocity=_where(present, velocity, _still(position)),
        goal=_where(present, goal, _nowhere(position)),
        home=_where(present, home, _nowhere(position)),
    )


def advance(
    params: MovingParams,
    obstacles: MovingObstacles,
    key: Tensor,
    step: Tensor,
    drone_position: Tensor,
    drone_velocity: Tensor,
    dt_s: float,
) -> MovingObstacles:
    """Return the obstacles dt_s later; key and step (N,) are the episode's key and its steps so far."""
    stopping, bouncing, crossing = _modes(params, _rank(params, key))
    position, velocity = _flown(params, obstacles, dt_s)
    drawn, speed_mps, chance = _drawn(params, obstacles.home, key, step)
    meeting, astray_m = _meeting(
        params, obstacles.home, position, speed_mps, drone_position, drone_velocity
    )
    present = obstacles.position.x < 0.5 * FAR_M
    turn = torch.where(crossing & (astray_m <= 0.0), _MEET, _TURN)
    at_goal = torch.where(stopping, _HALT, torch.where(bouncing, _GO_ON, turn))
    arrived = _square(_minus(obstacles.goal, position)) < params.arrival_m**2
    reaction = torch.where(present & arrived, at_goal, _GO_ON)
    rest = torch.where(_square(velocity) == 0.0, chance, _UNDER_WAY)
    rest = torch.where(present, rest, _NOT_THERE)
    reaction = torch.where(stopping & (rest < min(1.0, dt_s / params.rest_s)), _TURN, reaction)
    if params.re_aim_every_s is not None:
        tick = step.to(torch.int64) % max(1, int(params.re_aim_every_s / dt_s)) == 0
        reaction = _at_tick(reaction, turn, rest, crossing, tick & ~bouncing)

    goal = _where((reaction == _TURN) | (reaction == _RENEW), drawn, obstacles.goal)
    goal = _where(reaction == _MEET, meeting, goal)
    velocity = _where(reaction == _HALT, _still(velocity), velocity)
    velocity = _where(reaction >= _AIM, _towards(position, goal, speed_mps), velocity)
    return MovingObstacles(position, velocity, goal, obstacles.home)


def _index(params: MovingParams, like: Tensor) -> Tensor:
    return torch.arange(params.count, device=like.device).unsqueeze(-1)


def _rank(params: MovingParams, key: Tensor) -> Tensor:
    """Return the order in which obstacles come into being, (D, 1): the kinds take turns."""
    index, of_a_kind = _index(params, key), params.count // KINDS
    kind, member = index // of_a_kind, index % of_a_kind
    # By two further each turn: so every kind is spread over the map as well as all are together.
    return member * KINDS + (kind + 2 * member) % KINDS


def _modes(params: MovingParams, rank: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masks of stop_and_go, bouncing and crossing, bool (D, 1), spread evenly over the ranks."""
    total = sum(params.modes.values())
    place = _fraction(rank * _SPREAD_MODES) * total
    found, edge = [], 0.0
    for mode in ("stop_and_go", "bouncing", "crossing"):
        found.append((place >= edge) & (place < edge + params.modes[mode]))
        edge += params.modes[mode]
    return found[0], found[1], found[2]


def _at_tick(
    reaction: Tensor, turn: Tensor, rest: Tensor, crossing: Tensor, tick: Tensor
) -> Tensor:
    """Return the reactions where all turn at the same times: on arrival only the goal is new until then."""
    reaction = torch.where((reaction >= _TURN) & (rest == _UNDER_WAY), _RENEW, reaction)
    aim = torch.where(crossing | (reaction == _RENEW), turn, _AIM)
    return torch.where(tick & (rest == _UNDER_WAY) & (reaction != _HALT), aim, reaction)


def _homes(params: MovingParams, key: Tensor, rank: Tensor) -> Triple:
    """Return homes that are uniform in the box, and spaced among each other."""
    shift = random.uniform(key, random.SCENARIO, 3)
    x, y, z = (
        _fraction(rank * step + own) for step, own in zip(_SPREAD, shift.unbind(0), strict=True)
    )
    return Triple(
        (2.0 * x - 1.0) * params.half_extent_m,
        (2.0 * y - 1.0) * params.half_extent_m,
        _level(params, z * params.height_m),
    )


def _cleared(params: MovingParams, home: Triple, start: Tensor) -> Triple:
    """Return the positions, away from the drone: on the side of the home, or of the drone past a face."""
    dx, dy = home.x - start[0], home.y - start[1]
    dx = torch.where(dx * dx + dy * dy < _LEAST_M**2, _LEAST_M, dx)
    away = params.clear_of_start_m * torch.rsqrt(dx * dx + dy * dy)
    pushed = [
        torch.where((place + push).abs() > params.half_extent_m, place - push, place + push).clamp(
            -params.half_extent_m, params.half_extent_m
        )
        for place, push in ((start[0], dx * away), (start[1], dy * away))
    ]
    far = away < 1.0
    return Triple(torch.where(far, home.x, pushed[0]), torch.where(far, home.y, pushed[1]), home.z)


def _flown(params: MovingParams, obstacles: MovingObstacles, dt_s: float) -> tuple[Triple, Triple]:
    """Return position and velocity after straight flight, mirrored at the faces of the box."""
    half, present = params.half_extent_m, obstacles.position.x < 0.5 * FAR_M
    bounds = ((-half, half), (-half, half), (0.0, params.height_m))
    places, speeds = [], []
    for place, speed, (low, high) in zip(*obstacles[:2], bounds, strict=True):
        flown = place + speed * dt_s
        above, below = present & (flown > high), present & (flown < low)
        flown = torch.where(above, 2.0 * high - flown, flown)
        places.append(torch.where(below, 2.0 * low - flown, flown))
        falling = torch.where(above, -speed.abs(), speed)
        speeds.append(torch.where(below, speed.abs(), falling))
    return Triple(*places), Triple(*speeds)


def _drawn(
    params: MovingParams, home: Triple, key: Tensor, step: Tensor
) -> tuple[Triple, Tensor, Tensor]:
    """Draw a goal in the territory, a speed, and a number in [0, 1), of this step for every obstacle."""
    # One hash per number and env, not per obstacle, which took a fifth of the simulator's time: the
    # obstacles share what is drawn, each shifted by its own steps of a well spread sequence.
    shared = random.uniform(key ^ random.mix(step.to(torch.int64)), random.MOVING, 5)
    index = _index(params, key)
    *draws, speed, chance = (
        _fraction(index * step + own)
        for step, own in zip(_SPREAD_DRAWS, shared.unbind(0), strict=True)
    )
    x, y, z = (
        place + (2.0 * draw - 1.0) * reach_m
        for place, draw, reach_m in zip(home, draws, params.local_range_m, strict=True)
    )
    goal = _in_box(params, x, y, z)
    slow, fast = params.speed_mps
    return goal, slow + (fast - slow) * speed, chance


def _meeting(
    params: MovingParams,
    home: Triple,
    position: Triple,
    speed_mps: Tensor,
    drone_position: Tensor,
    drone_velocity: Tensor,
) -> tuple[Triple, Tensor]:
    """Return where the obstacle can meet the drone, and how far outside of its territory that is."""
    x, y = drone_position[0] - position.x, drone_position[1] - position.y
    time_s = ((x * x + y * y).sqrt() / speed_mps).clamp_max(params.look_ahead_s)
    x, y, z = (
        place + speed * time_s
        for place, speed in zip(drone_position.unbind(0), drone_velocity.unbind(0), strict=True)
    )
    goal = _in_box(params, x, y, z)
    reach_x_m, reach_y_m, _ = params.local_range_m
    beyond = ((goal.x - home.x).abs() - reach_x_m, (goal.y - home.y).abs() - reach_y_m)
    return goal, torch.maximum(*beyond)


def _in_box(params: MovingParams, x: Tensor, y: Tensor, z: Tensor) -> Triple:
    """Return the nearest point in the box; its height is fixed for columns."""
    half = params.half_extent_m
    z = _level(params, z.clamp(0.0, params.height_m))
    return Triple(x.clamp(-half, half), y.clamp(-half, half), z)


def _level(params: MovingParams, z: Tensor) -> Tensor:
    """Return the heights (D, N) of blocks, and the fixed height of columns."""
    return torch.where(is_column(params, _index(params, z)), _COLUMN_Z_M, z)


def _towards(position: Triple, goal: Triple, speed_mps: Tensor) -> Triple:
    """Return the velocity (3, D, N) of this speed to the goal; along x for an obstacle that is there."""
    way = _minus(goal, position)
    way = way._replace(x=torch.where(_square(way) < _LEAST_M**2, _LEAST_M, way.x))
    factor = speed_mps * torch.rsqrt(_square(way))
    return Triple(*(part * factor for part in way))


def _fraction(x: Tensor) -> Tensor:
    return x - x.floor()


def _square(triple: Triple) -> Tensor:
    return triple.x * triple.x + triple.y * triple.y + triple.z * triple.z


def _minus(a: Triple, b: Triple) -> Triple:
    return Triple(a.x - b.x, a.y - b.y, a.z - b.z)


def _where(mask: Tensor, a: Triple, b: Triple) -> Triple:
    return Triple(*(torch.where(mask, x, y) for x, y in zip(a, b, strict=True)))


def _still(like: Triple) -> Triple:
    return Triple(*(torch.zeros_like(part) for part in like))


def _nowhere(like: Triple) -> Triple:
    far = torch.full_like(like.x, FAR_M)
    return Triple(far, far, like.z)
