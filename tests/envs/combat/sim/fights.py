"""Fights drawn over the whole range of states and rules, and their images: turned, reflected, exchanged."""

import itertools
import math
from typing import NamedTuple

import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from navrl.envs.combat.sim.flight import Motion
from navrl.envs.combat.sim.state import Action, Aircraft, CombatState, Missiles
from tests.envs.combat.sim.duels import env_rows, leaves, shipped_params

_FIGHTER = shipped_params().fighter
SEEDS = st.integers(0, 2**31)
# The same few examples every time; a failing one is large anyway, so making it smaller is not worth minutes.
few = settings(
    derandomize=True, deadline=None, database=None, max_examples=4, phases=[Phase.generate]
)


def rules(**fixed):
    """Return a strategy of constants: sizes of teams, and every rule of launches, missiles and rudders."""
    limits = [_FIGHTER._replace(max_load_g=limit_g) for limit_g in (None, 6.0)]
    free = {
        "team_size": st.integers(1, 3),
        "channels": st.integers(1, 2),
        "channel_mode": st.sampled_from(["block", "recycle"]),
        "cooldown_decisions": st.sampled_from([0, 2]),
        "ammunition": st.sampled_from([6, 1, None]),
        "retarget": st.booleans(),
        "resolve_in_flight": st.booleans(),
        "rudder_rate_per_s": st.sampled_from([None, 0.5]),
        "guidance_law": st.sampled_from(["proportional", "legacy_gain"]),
        "fighter": st.sampled_from(limits),
        "disengage_range_m": st.sampled_from([None, 30e3]),
    }
    chosen = free | {name: st.just(value) for name, value in fixed.items()}
    return st.fixed_dictionaries(chosen).map(lambda found: shipped_params(tick_s=0.25, **found))


class Draws:
    """Random numbers of one seed, env axis last."""

    def __init__(self, seed, count):
        self._generator, self.count = torch.Generator().manual_seed(seed), count

    def between(self, low, high, *shape):
        draw = torch.rand(*shape, self.count, generator=self._generator)
        return low + (high - low) * draw

    def whole(self, low, high, *shape):
        """Return whole numbers from low to high, both included."""
        return self.between(low, high + 1 - 1e-3, *shape).floor().to(torch.int32)

    def chance(self, part, *shape):
        return self.between(0.0, 1.0, *shape) < part

    def one_of(self, values, *shape):
        return torch.tensor(values)[self.whole(0, len(values) - 1, *shape).long()]


def drawn_fights(params, draws, *, ties=True):
    """Return fights within 4 km, within 40 km, and on a grid where distances tie and bearings are 0 or pi.

    Speeds, ages, racks and clocks are often at a border; half of the missiles are about to arrive.
    """
    size = params.team_size
    crafts, channels = (2 * size,), (2 * size, params.channels)
    first_enemy = torch.tensor([size] * size + [0] * size, dtype=torch.int32).view(-1, 1, 1)
    target = first_enemy + draws.whole(0, size - 1, *channels)
    ages = [0, params.burn_ticks - 1, params.burn_ticks, params.max_age_ticks - 1]
    age = torch.where(draws.chance(0.3, *channels), draws.one_of(ages, *channels), 0)
    age = torch.where(age > 0, age, draws.whole(0, 120, *channels)).to(torch.int32)
    aircraft = _motion(draws, crafts, ties=ties)
    late = draws.chance(0.05)
    decision = torch.where(late, params.max_decisions - 2, draws.whole(0, 200)).to(torch.int32)
    return CombatState(
        aircraft=Aircraft(
            motion=aircraft,
            rudder=draws.between(-1.0, 1.0, *crafts),
            throttle=draws.between(0.0, 1.0, *crafts),
            alive=draws.chance(0.85, *crafts),
            rounds=params.rounds - draws.whole(0, min(params.rounds, 6), *crafts),
            cooldown=draws.whole(0, params.cooldown_decisions, *crafts),
        ),
        missiles=Missiles(
            motion=_shots(draws, aircraft, target, channels),
            active=draws.chance(0.4, *channels),
            age_ticks=age,
            target=target,
            line_of_sight_rad=(torch.zeros(*channels, draws.count),) * (params.model == "legacy"),
        ),
        decision=decision,
    )


def _motion(draws, shape, *, ties=True):
    kind = draws.whole(0, 2 if ties else 1)
    half_m = torch.where(kind == 0, 2e3, 20e3)
    grid = [4e3 * step for step in range(-3, 4)]
    x_m, y_m = (
        torch.where(kind == 2, draws.one_of(grid, *shape), half_m * draws.between(-1, 1, *shape))
        for _ in range(2)
    )
    heading = draws.between(0.0, 2.0 * math.pi, *shape)
    eighth, root = draws.whole(0, 7, *shape).long(), math.sqrt(0.5)
    cos = torch.tensor([1.0, root, 0.0, -root, -1.0, -root, 0.0, root])
    exact = draws.chance(0.3, *shape)
    return Motion(
        x_m=x_m,
        y_m=y_m,
        cos_heading=torch.where(exact, cos[eighth], heading.cos()),
        sin_heading=torch.where(exact, cos[(eighth - 2) % 8], heading.sin()),
        speed_mps=torch.where(
            draws.chance(0.1, *shape), 200.0, draws.between(150.0, 500.0, *shape)
        ),
    )


def _shots(draws, aircraft, target, shape):
    """Return missiles anywhere, half of them up to 2 km from their targets and roughly on their way."""
    anywhere = _motion(draws, shape)
    faster = anywhere._replace(speed_mps=anywhere.speed_mps * draws.between(1.0, 2.5, *shape))
    away_m, near = draws.between(50.0, 2e3, *shape), draws.chance(0.5, *shape)
    wide = target.flatten(0, 1).long()
    prey_x, prey_y = (field.gather(0, wide).view(away_m.shape) for field in aircraft[:2])
    aside = draws.between(-0.2, 0.2, *shape)
    return faster._replace(
        x_m=torch.where(near, prey_x - away_m * (faster.cos_heading + aside), faster.x_m),
        y_m=torch.where(near, prey_y - away_m * faster.sin_heading, faster.y_m),
    )


def drawn_orders(params, state, draws):
    """Return orders that mostly turn towards an enemy and often fire, at anybody."""
    motion, shape = state.aircraft.motion, state.aircraft.alive.shape[:1]
    x_m, y_m = (field.flip(0) - field for field in motion[:2])
    towards = torch.sign(motion.cos_heading * y_m - motion.sin_heading * x_m)
    return Action(
        rudder=torch.where(draws.chance(0.6, *shape), towards, draws.between(-1.0, 1.0, *shape)),
        throttle=torch.where(draws.chance(0.7, *shape), 1.0, draws.between(0.0, 1.0, *shape)),
        fire=draws.chance(0.3, *shape),
        target=draws.whole(-1, params.team_size - 1, *shape),
    )


# ---- images --------------------------------------------------------------------------------------


class Image(NamedTuple):
    """One of the eight turns and reflections that keep the axes, with the sides exchanged or not."""

    transposed: bool  # x and y exchanged
    sign_x: float
    sign_y: float
    exchanged: bool  # team 0 flies what team 1 flew

    @property
    def hand(self):
        """Return -1 where left becomes right, else 1."""
        return self.sign_x * self.sign_y * (-1.0 if self.transposed else 1.0)

    def seat(self, params, me):
        """Return the aircraft that flies in the image what `me` flies."""
        return (me + self.exchanged * params.team_size) % (2 * params.team_size)

    def rows(self, params, field):
        """Return a field (A, ...) by the seats of the image."""
        return field.roll(params.team_size, 0) if self.exchanged else field

    def motion(self, params, motion):
        x, y, cos, sin, speed = (self.rows(params, field) for field in motion)
        if self.transposed:
            x, y, cos, sin = y, x, sin, cos
        sign_x, sign_y = self.sign_x, self.sign_y
        return Motion(sign_x * x, sign_y * y, sign_x * cos, sign_y * sin, speed)

    def state(self, params, state):
        craft, flying = state.aircraft, state.missiles
        rows = {name: self.rows(params, getattr(craft, name)) for name in Aircraft._fields[1:]}
        rows["rudder"] = self.hand * rows["rudder"]
        target = self.rows(params, flying.target)
        return CombatState(
            aircraft=Aircraft(motion=self.motion(params, craft.motion), **rows),
            missiles=Missiles(
                motion=self.motion(params, flying.motion),
                active=self.rows(params, flying.active),
                age_ticks=self.rows(params, flying.age_ticks),
                target=self.seat(params, target),
                line_of_sight_rad=(),
            ),
            decision=state.decision,
        )

    def action(self, params, action):
        rows = Action(*(self.rows(params, field) for field in action))
        return rows._replace(rudder=self.hand * rows.rudder)


IMAGES = [
    Image(*flags)
    for flags in itertools.product((False, True), (1.0, -1.0), (1.0, -1.0), (False, True))
]


def renumbered(state, order):
    """Return the state in which seat p is the aircraft order[p] of this one."""
    craft, flying = pytree.tree_map(lambda field: field[order], (state.aircraft, state.missiles))
    place = torch.tensor([order.index(me) for me in range(len(order))], dtype=torch.int32)
    return CombatState(craft, flying._replace(target=place[flying.target.long()]), state.decision)


def renumbered_orders(orders, order):
    """Return the same orders for the renumbered state: a target is a place among the enemies."""
    size, rows = len(order) // 2, pytree.tree_map(lambda field: field[order], orders)
    first_enemy = torch.tensor([size] * size + [0] * size).unsqueeze(-1)
    place = torch.tensor([order.index(me) for me in range(len(order))], dtype=torch.int32)
    renamed = place[(first_enemy + rows.target).clamp_min(0)] - first_enemy
    return rows._replace(target=torch.where(rows.target < 0, rows.target, renamed.int()))


# ---- trees of tensors ----------------------------------------------------------------------------


def side_by_side(trees):
    """Return one tree of the envs of all trees."""
    return pytree.tree_map(lambda *fields: torch.cat(fields, -1), *trees)


def halves(tree):
    """Return the first and the second half of the envs."""
    half = leaves(tree)[0].shape[-1] // 2
    return env_rows(tree, range(half)), env_rows(tree, range(half, 2 * half))


def where(mask, tree, other):
    """Select tensor by tensor."""
    return pytree.tree_map(lambda a, b: torch.where(mask, a, b), tree, other)


def assert_same_bits(found, expected, mask=None):
    """Every tensor is equal bit for bit, in the envs of the mask if there is one; a nan equals nothing."""
    for number, (a, b) in enumerate(zip(leaves(found), leaves(expected), strict=True)):
        different = (a != b) if mask is None else (a != b) & mask
        envs = different.reshape(-1, a.shape[-1]).any(0).nonzero().flatten().tolist()
        assert not envs, f"leaf {number} in {len(envs)} envs, such as {envs[:5]}"
