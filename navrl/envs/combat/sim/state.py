"""The state of N fights, the events of a decision, and questions about them.

Shapes: A aircraft (the first half flies for team 0), K missile channels per aircraft, N envs (last and
contiguous).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.params import CombatParams as CombatParams  # for all users of states
from navrl.envs.core.reductions import any_row

Tree = TypeVar("Tree")
TwoSides = tuple[Tensor, Tensor]


class Aircraft(NamedTuple):
    """All aircraft, every field (A, N)."""

    motion: Motion
    rudder: Tensor  # last command, -1 .. 1, positive turns left (counter-clockwise)
    throttle: Tensor  # last command, 0 .. 1
    alive: Tensor  # bool
    rounds: Tensor  # int32, missiles left
    cooldown: Tensor  # int32, decisions until the trigger works again


class Missiles(NamedTuple):
    """All missile channels, every field (A, K, N)."""

    motion: Motion
    active: Tensor  # bool
    age_ticks: Tensor  # int32
    target: Tensor  # int32, index of the aircraft it flies at
    line_of_sight_rad: tuple[Tensor, ...]  # one tick ago; the legacy model alone remembers it


class CombatState(NamedTuple):
    """The whole state of N fights."""

    aircraft: Aircraft
    missiles: Missiles
    decision: Tensor  # int32 (N,), decisions since the start


class Action(NamedTuple):
    """The commands of all aircraft, every field (A, N)."""

    rudder: Tensor
    throttle: Tensor
    fire: Tensor  # bool
    target: Tensor | None = None  # int32, place among the enemies; None, -1 or dead: the nearest


class Command(NamedTuple):
    """The command of one aircraft, fields (N,)."""

    rudder: Tensor  # -1 .. 1, positive turns left
    throttle: Tensor  # 0 .. 1
    fire: Tensor  # bool
    target: Tensor | None = None  # int32, place among the enemies; None: the nearest


def joint_action(commands: Sequence[Command]) -> Action:
    """Stack the commands of all aircraft to rows (A, N); without a target they fire at the nearest."""
    nearest = torch.full_like(commands[0].rudder, -1, dtype=torch.int32)
    targets = [nearest if command.target is None else command.target for command in commands]
    return Action(
        rudder=torch.stack([command.rudder for command in commands]),
        throttle=torch.stack([command.throttle for command in commands]),
        fire=torch.stack([command.fire for command in commands]),
        target=torch.stack(targets),
    )


class Events(NamedTuple):
    """Everything that happened during one decision, every field (A, N) bool."""

    launched: Tensor
    hit: Tensor  # a missile of this aircraft killed
    killed: Tensor  # this aircraft died
    missed: Tensor  # a missile of this aircraft ended without a hit
    defeated: Tensor  # a missile at this aircraft ended without a hit


def initial_state(params: CombatParams, motion: Motion) -> CombatState:
    """Return a state in which all live, racks are full and no missile flies; motion is (A, N)."""
    shape = (motion.x_m.shape[0], params.channels, motion.x_m.shape[1])
    device = motion.x_m.device
    parked = Motion(*(field.unsqueeze(1).expand(shape).clone() for field in motion))
    zeros = torch.zeros(shape, dtype=torch.int32, device=device)
    remembered = (torch.zeros(shape, device=device),) if params.model == "legacy" else ()
    return CombatState(
        aircraft=Aircraft(
            motion=motion,
            rudder=torch.zeros_like(motion.x_m),
            throttle=torch.ones_like(motion.x_m),
            alive=torch.ones_like(motion.x_m, dtype=torch.bool),
            rounds=torch.full_like(motion.x_m, params.rounds, dtype=torch.int32),
            cooldown=torch.zeros_like(motion.x_m, dtype=torch.int32),
        ),
        missiles=Missiles(
            motion=parked,
            active=zeros.bool(),
            age_ticks=zeros,
            target=zeros.clone(),
            line_of_sight_rad=remembered,
        ),
        decision=torch.zeros(shape[-1:], dtype=torch.int32, device=device),
    )


# ---- the end of a fight ----------------------------------------------------------------------------


def decided(params: CombatParams, state: CombatState) -> Tensor:
    """Test whether at most one team is alive, or no missile is left in any rack or in the air; bool (N,)."""
    craft = state.aircraft
    fields = (sides(params, f) for f in (craft.alive, craft.rounds, state.missiles.active))
    return is_over(params, *fields)


def is_over(params: CombatParams, alive: TwoSides, rounds: TwoSides, active: TwoSides) -> Tensor:
    """Compute `decided` by side from alive (S, N), rounds left (S, N) and missiles active (S, K, N)."""
    first, second = any_row(alive[0]), any_row(alive[1])
    over = ~(first & second)
    flying = [any_row(side.flatten(0, 1)) for side in active]
    if params.resolve_in_flight:  # what flies at a side that is dead changes nothing any more
        over = over & ~((flying[0] & second) | (flying[1] & first))
    if params.ammunition is None:
        return over
    armed = any_row(alive[0] & (rounds[0] > 0)) | any_row(alive[1] & (rounds[1] > 0))
    return over | ~(flying[0] | flying[1] | armed)


def disengaged(params: CombatParams, state: CombatState) -> Tensor:
    """Test whether all enemies are out of reach of each other and no missile flies; bool (N,)."""
    if params.disengage_range_m is None:
        return torch.zeros_like(state.decision, dtype=torch.bool)
    limit = params.disengage_range_m**2
    near = any_row(state.missiles.active.flatten(0, 1))
    x, y, alive = state.aircraft.motion.x_m, state.aircraft.motion.y_m, state.aircraft.alive
    for mine in range(params.team_size):
        for other in range(params.team_size, 2 * params.team_size):
            square = (x[mine] - x[other]) ** 2 + (y[mine] - y[other]) ** 2
            near = near | (alive[mine] & alive[other] & (square < limit))
    return ~near


def timed_out(params: CombatParams, state: CombatState) -> Tensor:
    """Test whether the time limit is reached; bool (N,). Counts decisions, because seconds round."""
    return state.decision >= params.max_decisions


def winner_sign(params: CombatParams, state: CombatState, team: int) -> Tensor:
    """Return +1 where only `team` is alive, -1 where only the other is, 0 otherwise; float32 (N,)."""
    living = [any_row(side) for side in sides(params, state.aircraft.alive)]
    mine, theirs = living[team], living[1 - team]
    return (mine & ~theirs).float() - (theirs & ~mine).float()


def elapsed_s(params: CombatParams, state: CombatState) -> Tensor:
    """Return the game time since the start, (N,)."""
    return state.decision.float() * params.step_s


# ---- weapons and targets ---------------------------------------------------------------------------


def can_fire(params: CombatParams, state: CombatState) -> Tensor:
    """Test for life, a round left, no pause of the trigger, and a free channel; bool (A, N)."""
    craft = state.aircraft
    return is_ready(params, craft.alive, craft.rounds, craft.cooldown, state.missiles.active)


def is_ready(
    params: CombatParams, alive: Tensor, rounds: Tensor, cooldown: Tensor, active: Tensor
) -> Tensor:
    """Compute `can_fire` for any rows of aircraft (S, N) and their missiles (S, K, N)."""
    ready = alive & (rounds > 0) & (cooldown == 0)
    if params.channel_mode == "recycle":
        return ready
    return ready & any_row((~active).transpose(0, 1))


def enemies_of(params: CombatParams, me: int) -> list[int]:
    """Return the indices of all aircraft of the other team."""
    return [i for i, team in enumerate(params.teams) if team != params.teams[me]]


def nearest_living(own: Motion, enemies: Motion, alive: Tensor, otherwise: Tensor) -> Tensor:
    """Return the row of the living enemy (S, N) nearest to each of `own`, int32; or `otherwise`."""
    least = torch.full_like(own.x_m, torch.inf)
    nearest = otherwise
    for enemy, lives in enumerate(alive.unbind(0)):
        x, y = enemies.x_m[enemy] - own.x_m, enemies.y_m[enemy] - own.y_m
        square = torch.where(lives, x * x + y * y, torch.inf)
        nearest = torch.where(square < least, enemy, nearest)
        least = torch.minimum(square, least)
    return nearest


def requested_or(requested: Tensor, alive: Tensor, otherwise: Tensor) -> Tensor:
    """Return the requested rows where these are alive (S, N), else the others."""
    for enemy, lives in enumerate(alive.unbind(0)):
        otherwise = torch.where((requested == enemy) & lives, enemy, otherwise)
    return otherwise


# ---- fields ----------------------------------------------------------------------------------------


def sides(params: CombatParams, field: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of team 0 and of team 1."""
    return field[: params.team_size], field[params.team_size :]


def split_motion(params: CombatParams, motion: Motion) -> tuple[Motion, Motion]:
    """Return the motion of team 0 and of team 1."""
    both = [sides(params, field) for field in motion]
    return Motion(*(pair[0] for pair in both)), Motion(*(pair[1] for pair in both))


def join(rows: Sequence[Tensor]) -> Tensor:
    """Concatenate rows of sides into one field."""
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))


def select(mask: Tensor, chosen: Tree, other: Tree) -> Tree:
    """Select tensor by tensor of NamedTuples: chosen where mask, else other."""
    return map_pairs(lambda one, two: torch.where(mask, one, two), chosen, other)


def map_pairs(function: Callable[[Tensor, Tensor], Tensor], first: Tree, second: Tree) -> Tree:
    """Apply a function to every pair of tensors of two NamedTuples of one kind."""

    def walk(one: Any, two: Any) -> Any:
        if isinstance(one, Tensor):
            return function(one, two)
        return type(one)(*(walk(a, b) for a, b in zip(one, two, strict=True)))

    return cast(Tree, walk(first, second))


def concatenated(first: Tree, second: Tree) -> Tree:
    """Concatenate every field (N,) of two NamedTuples to (2 N,)."""
    return map_pairs(lambda one, two: torch.cat([one, two]), first, second)
