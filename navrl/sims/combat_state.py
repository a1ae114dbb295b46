"""What is true of N fights: constants, state, events, and questions about them.

Shapes: A aircraft, K missile channels per aircraft, N envs (last and contiguous).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from navrl.sims.flight import Body, Motion, check_step

UNLIMITED = 1 << 30  # rounds; never counted down to zero


class CombatParams(NamedTuple):
    """Constants of one kind of combat; Python numbers, so a compiled step folds them in."""

    fighter: Body
    missile: Body
    teams: tuple[int, ...]  # team of each aircraft
    channels: int  # missiles one aircraft can have in the air
    ammunition: int | None  # rounds per aircraft, None: unlimited
    burn_time_s: float
    launch_offset_m: float
    hit_radius_m: float
    self_destruct_speed_mps: float  # below it a missile without thrust ends
    max_missile_age_s: float
    navigation_gain: float
    decision_s: float  # time between two actions at time_scale 1
    time_scale: float  # stretches the decision, never the tick
    tick_s: float  # longest physics step
    time_limit_s: float

    @property
    def ticks(self) -> int:
        """Physics steps per decision."""
        return math.ceil(self.decision_s * self.time_scale / self.tick_s - 1e-9)

    @property
    def dt_s(self) -> float:
        """Physics step."""
        return self.decision_s * self.time_scale / self.ticks

    @property
    def step_s(self) -> float:
        """Game time per decision."""
        return self.decision_s * self.time_scale

    @property
    def burn_ticks(self) -> int:
        """Ticks with thrust after a launch."""
        return round(self.burn_time_s / self.dt_s)

    @property
    def max_age_ticks(self) -> int:
        """Ticks after which any missile ends."""
        return round(self.max_missile_age_s / self.dt_s)

    @property
    def rounds(self) -> int:
        """Ammunition at the start of an episode."""
        return UNLIMITED if self.ammunition is None else self.ammunition

    def checked(self) -> "CombatParams":
        """Self, or a ValueError that says which constant is impossible."""
        for name in ("decision_s", "time_scale", "tick_s", "time_limit_s", "hit_radius_m"):
            if not getattr(self, name) > 0.0:
                raise ValueError(
                    f"env.sim.{name} = {getattr(self, name)}; expected more than 0; change env.sim.{name}"
                )
        if self.rounds < 1:
            raise ValueError(
                f"env.sim.ammunition = {self.ammunition}; expected 1 or more, or null for "
                "unlimited; change env.sim.ammunition"
            )
        if len(set(self.teams)) < 2 or self.channels < 1:
            raise ValueError(
                f"env.sim.teams = {self.teams} with {self.channels} channels; expected two or more "
                "teams and at least one channel; change env.sim.teams or env.sim.channels"
            )
        check_step(self.fighter, self.dt_s)
        check_step(self.missile, self.dt_s)
        return self


class Aircraft(NamedTuple):
    """All aircraft, every field (A, N)."""

    motion: Motion
    rudder: Tensor  # last command, -1 .. 1, positive turns left (counter-clockwise)
    alive: Tensor  # bool
    rounds: Tensor  # int32, missiles left


class Missiles(NamedTuple):
    """All missile channels, every field (A, K, N)."""

    motion: Motion
    active: Tensor  # bool
    age_ticks: Tensor  # int32
    target: Tensor  # int32, index of the aircraft it flies at


class CombatState(NamedTuple):
    """Everything that is true of N fights."""

    aircraft: Aircraft
    missiles: Missiles
    decision: Tensor  # int32 (N,), decisions since the start


class Action(NamedTuple):
    """What every aircraft is told to do, every field (A, N)."""

    rudder: Tensor
    throttle: Tensor
    fire: Tensor  # bool


class Events(NamedTuple):
    """What happened during one decision, every field (A, N) bool."""

    launched: Tensor
    hit: Tensor  # a missile of this aircraft killed
    killed: Tensor  # this aircraft died
    missed: Tensor  # a missile of this aircraft ended without a hit
    defeated: Tensor  # a missile at this aircraft ended without a hit


def opening_state(params: CombatParams, motion: Motion) -> CombatState:
    """Everybody alive, racks full, nothing in the air; motion is (A, N)."""
    shape = (motion.x_m.shape[0], params.channels, motion.x_m.shape[1])
    device = motion.x_m.device
    parked = Motion(*(field.unsqueeze(1).expand(shape).clone() for field in motion))
    zeros = torch.zeros(shape, dtype=torch.int32, device=device)
    return CombatState(
        aircraft=Aircraft(
            motion=motion,
            rudder=torch.zeros_like(motion.x_m),
            alive=torch.ones_like(motion.x_m, dtype=torch.bool),
            rounds=torch.full_like(motion.x_m, params.rounds, dtype=torch.int32),
        ),
        missiles=Missiles(
            motion=parked, active=zeros.bool(), age_ticks=zeros, target=zeros.clone()
        ),
        decision=torch.zeros(shape[-1:], dtype=torch.int32, device=device),
    )


def decided(params: CombatParams, state: CombatState) -> Tensor:
    """At most one team is alive, or nobody has a missile left in rack or air; bool (N,)."""
    return is_over(
        params,
        list(state.aircraft.alive.unbind(0)),
        list(state.aircraft.rounds.unbind(0)),
        list(state.missiles.active.flatten(0, 1).unbind(0)),
    )


def is_over(
    params: CombatParams, alive: list[Tensor], rounds: list[Tensor], active: list[Tensor]
) -> Tensor:
    """`decided` over lists of (N,) tensors: aircraft alive, their rounds, missiles active."""
    teams = list(_any_by_team(params, alive).values())
    over = sum((side.to(torch.int32) for side in teams[1:]), teams[0].to(torch.int32)) <= 1
    if params.ammunition is None:
        return over
    threat = torch.zeros_like(over)
    for flag in active:
        threat = threat | flag
    for left, lives in zip(rounds, alive, strict=True):
        threat = threat | (lives & (left > 0))
    return over | ~threat


def enemies_of(params: CombatParams, me: int) -> list[int]:
    """Indices of all aircraft of other teams."""
    return [i for i, team in enumerate(params.teams) if team != params.teams[me]]


def winner_sign(params: CombatParams, state: CombatState, team: int) -> Tensor:
    """+1 where only `team` is alive, -1 where only others are, 0 otherwise; float32 (N,)."""
    alive = _any_by_team(params, list(state.aircraft.alive.unbind(0)))
    others = torch.zeros_like(alive[team])
    for name, flag in alive.items():
        if name != team:
            others = others | flag
    return (alive[team] & ~others).float() - (others & ~alive[team]).float()


def elapsed_s(params: CombatParams, state: CombatState) -> Tensor:
    """Game time since the start, (N,)."""
    return state.decision.float() * params.step_s


def can_fire(params: CombatParams, state: CombatState) -> Tensor:
    """Alive, a round left and a free channel; bool (A, N)."""
    free = ~state.missiles.active.all(1)
    return state.aircraft.alive & free & (state.aircraft.rounds > 0)


def _any_by_team(params: CombatParams, flags: list[Tensor]) -> dict[int, Tensor]:
    teams: dict[int, Tensor] = {}
    for team, flag in zip(params.teams, flags, strict=True):
        teams[team] = teams[team] | flag if team in teams else flag
    return teams
