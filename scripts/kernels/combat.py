"""The kernel of combat.c: compiled by gcc, called on the simulator's tensors, checked against it."""

from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from kernels import FAST, Bound, compiled
from navrl.envs.combat.observations.ego import EGO_SIZE, ego_rows
from navrl.envs.combat.sim.advance import advance
from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import Action, CombatParams, CombatState, Events, initial_state

BLOCK = 64  # envs; the kernel takes whole blocks
LEAST_EVENTS = 20  # of every kind, else a check says nothing
LONGEST_TICK_S = 0.1  # for which the kernel's series are as long as float32 needs
KERNEL = Path(__file__).with_name("combat.c")
_MOTION = tuple(f"motion.{name}" for name in Motion._fields)
STATE_FIELDS = (  # in the order of State in the kernel
    *(
        f"aircraft.{name}"
        for name in (*_MOTION, "rudder", "throttle", "alive", "rounds", "cooldown")
    ),
    *(f"missiles.{name}" for name in (*_MOTION, "active", "age_ticks", "target")),
    "decision",
)
ACTION_FIELDS = ("rudder", "throttle", "fire")
KNOWN = {  # what the kernel is written for
    "model": "exact",
    "team_size": 1,
    "channels": 1,
    "channel_mode": "block",
    "guidance_law": "proportional",
    "resolve_in_flight": False,
    "rudder_rate_per_s": None,
}


class Outcome(NamedTuple):
    """The tensors that one call of the kernel fills."""

    state: CombatState
    events: Events
    rows: Tensor  # (EGO_SIZE, N), empty without observation


class Kernel:
    """scripts/kernels/combat.c, compiled for these constants."""

    def __init__(self, params: CombatParams) -> None:
        for name, value in KNOWN.items():
            if getattr(params, name) != value:
                raise SystemExit(
                    f"env.sim.{name} = {getattr(params, name)}; the kernel knows {value} only; "
                    "change conf/env/combat.yaml or scripts/kernels/combat.c"
                )
        limited = params.fighter.max_load_g or params.missile.max_load_g
        if limited or params.dt_s > LONGEST_TICK_S:
            raise SystemExit(
                f"load limit {limited} and a step of {params.dt_s} s; the kernel knows no limit and "
                f"steps up to {LONGEST_TICK_S} s; change conf/env/combat.yaml or scripts/kernels/combat.c"
            )
        self._library = compiled(KERNEL, _macros(params), FAST)

    def bound(self, state: CombatState, action: Action, *, observe: bool) -> Bound[Outcome]:
        """Return a call for one decision on these very tensors."""
        num_envs, fields = state.decision.shape[0], len(tree_leaves(state))
        if num_envs % BLOCK or fields != len(STATE_FIELDS):
            raise SystemExit(
                f"{num_envs} envs with {fields} fields in CombatState; the kernel knows multiples of "
                f"{BLOCK} envs and {len(STATE_FIELDS)} fields; change --sizes or scripts/kernels/combat.c"
            )
        function = self._library.decide_and_observe if observe else self._library.decide
        flags = (torch.empty_like(state.aircraft.alive) for _ in Events._fields)
        rows = torch.empty(EGO_SIZE if observe else 0, num_envs)
        outcome = Outcome(tree_map(torch.empty_like, state), Events(*flags), rows)
        return Bound(
            function,
            outcome,
            _named(state, STATE_FIELDS),
            _named(action, ACTION_FIELDS),
            _named(outcome.state, STATE_FIELDS),
            outcome.events,
            *([rows] if observe else []),
            num_envs,
        )


def _macros(params: CombatParams) -> dict[str, float]:
    numbers: dict[str, float] = {
        "DT_S": params.dt_s,
        "STEP_S": params.step_s,
        "TIME_LIMIT_S": params.time_limit_s,
        "NAVIGATION_GAIN": params.navigation_gain,
        "HIT_RADIUS_M": params.hit_radius_m,
        "SELF_DESTRUCT_SPEED_MPS": params.self_destruct_speed_mps,
        "LAUNCH_OFFSET_M": params.launch_offset_m,
    }
    for name, airframe in (("FIGHTER", params.fighter), ("MISSILE", params.missile)):
        for field in ("turn_radius_m", "thrust_mps2", "drag", "induced"):
            numbers[f"{name}_{field.upper()}"] = getattr(airframe, field)
    counts = {
        "TICKS": params.ticks,
        "BURN_TICKS": params.burn_ticks,
        "MAX_AGE_TICKS": params.max_age_ticks,
        "ROUNDS": params.rounds,
        "COOLDOWN_DECISIONS": params.cooldown_decisions,
    }
    return {name: float(value) for name, value in numbers.items()} | counts


def _named(tree: object, names: tuple[str, ...]) -> list[Tensor]:
    return [attrgetter(name)(tree) for name in names]


def random_opening(params: CombatParams, num_envs: int, draw: torch.Generator) -> CombatState:
    """Place both anywhere within 20 km of the middle: some shots hit at once, some late, some never."""
    x_m, y_m = 40e3 * torch.rand(2, 2, num_envs, generator=draw) - 20e3
    heading = 6.2831853 * torch.rand(2, num_envs, generator=draw)
    speed_mps = 200.0 + 250.0 * torch.rand(2, num_envs, generator=draw)
    return initial_state(params, Motion(x_m, y_m, heading.cos(), heading.sin(), speed_mps))


def random_orders(num_envs: int, draw: torch.Generator) -> Action:
    """Draw any rudder, mostly full throttle, and a trigger pulled in three of ten decisions."""
    rudder, throttle, fire = torch.rand(3, 2, num_envs, generator=draw)
    throttle = torch.where(throttle < 0.7, 1.0, throttle)
    return Action((2.5 * rudder - 1.25).clamp(-1.0, 1.0), throttle, fire < 0.3)


def check_agreement(kernel: Kernel, params: CombatParams, decisions: int = 200) -> dict[str, float]:
    """Compare every decision from the simulator's own state; raise SystemExit if the kernel differs.

    Where all flags and counts agree, and they must in all but 1 of 10,000 decisions (a pass at the hit
    radius), positions agree to 0.2 m, speeds to 0.1 m/s, headings and features to 1e-3.
    """
    num_envs, draw = 4 * BLOCK, torch.Generator().manual_seed(1)
    seen = dict.fromkeys(Events._fields, 0)
    worst = {"position_m": 0.0, "speed_mps": 0.0, "heading": 0.0, "feature": 0.0}
    others = 0
    for number in range(decisions):
        if number % 50 == 0:
            state = random_opening(params, num_envs, draw)
        action = random_orders(num_envs, draw)
        found = kernel.bound(state, action, observe=True)()
        state, events = advance(params, state, action)
        other = _different(found, state, events)
        others += int(other.sum())
        for name, flags in events._asdict().items():
            seen[name] += int(flags.sum())
        for name, gap in _gaps(found, state, torch.stack(ego_rows(params, state, 0))).items():
            worst[name] = max(worst[name], gap.masked_fill(other, 0.0).max().item())
    if min(seen.values()) < LEAST_EVENTS:
        raise SystemExit(
            f"{decisions} decisions of {num_envs} envs hold only {seen}; expected {LEAST_EVENTS} of each "
            "event for a check worth the name; check more decisions"
        )
    limits = {"position_m": 0.2, "speed_mps": 0.1, "heading": 1e-3, "feature": 1e-3}
    if others > 1e-4 * decisions * num_envs or any(worst[name] > limits[name] for name in limits):
        raise SystemExit(
            f"the kernel is not the simulator: {others} of {decisions * num_envs} decisions differ, "
            f"gaps {worst}, limits {limits}; change scripts/kernels/combat.c"
        )
    return {"decisions": decisions * num_envs, "other_outcome": others, **seen, **worst}


def _different(found: Outcome, state: CombatState, events: Events) -> Tensor:
    """Return the envs (N,) in which a flag or a count differs."""
    pairs = [*zip(found.events, events, strict=True)]
    pairs += [(attrgetter(n)(found.state), attrgetter(n)(state)) for n in STATE_FIELDS]
    exact = [(a, b) for a, b in pairs if not b.is_floating_point()]
    return torch.cat([(a != b).reshape(-1, a.shape[-1]) for a, b in exact]).any(0)


def _gaps(found: Outcome, state: CombatState, rows: Tensor) -> dict[str, Tensor]:
    """Return the largest difference per env (N,)."""
    gaps = {"feature": (found.rows - rows).abs().amax(0)}
    for field in Motion._fields:
        kind = {"x_m": "position_m", "y_m": "position_m", "speed_mps": "speed_mps"}.get(
            field, "heading"
        )
        for group in ("aircraft", "missiles"):
            a, b = (attrgetter(f"{group}.motion.{field}")(tree) for tree in (found.state, state))
            gap = (a - b).abs().reshape(-1, a.shape[-1]).amax(0)
            gaps[kind] = torch.maximum(gaps.get(kind, gap), gap)
    return gaps
