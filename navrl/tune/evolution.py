"""Population-based training: which members continue, which take over weights, with which options.

Jaderberg et al. 2017 (arXiv 1711.09846): after every generation the lowest quarter takes weights and options
of the upper quarter (exploit) and changes the options (explore).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from navrl.tune.space import Choices, Dimension, Range, Scalar, Space, written_value

_SHARE = 4  # a quarter of the members takes over, from another quarter
_FACTORS = (0.8, 1.25)
_DRAWN_ANEW = 0.25  # probability of another choice
# Changes of other options are not for a resumed run; it begins anew, with the weights.
_RESUMED = ("agent", "reward", "curriculum", "num_envs")
# What weights fit to, which goes with them.
_SHAPES = (".network.", ".team.", "observation.", "action.")

BEGUN, CONTINUED, TAKEN_OVER, WEIGHTS = "begun", "continued", "taken over", "weights taken over"


class Member(NamedTuple):
    """A member of the population in one generation."""

    number: int
    parent: int  # whose run it continues; its own number if it goes on
    how: str  # begun | continued | taken over | weights taken over, into a new run
    params: dict[str, Scalar]
    run: str  # its folder, below that of the study
    base: int  # generations before the first frame of that run
    seed: int
    source: str  # the checkpoint that the run begins with, empty if none
    ended: bool = False
    score: float | None = None  # None if unknown
    fault: str = ""
    times: int = 0  # that workers took it in this generation, and were killed or still train it


def first_generation(space: Space, size: int, seed: int) -> list[Member]:
    """Return the members that begin: one with the defaults, the others anywhere in the space."""
    members = []
    for number in range(size):
        random = Random(f"{seed}/begin/{number}")
        anywhere = {key: drawn(each, random) for key, each in space.dimensions.items()}
        params = dict(space.defaults) if number == 0 else anywhere
        members.append(Member(number, number, BEGUN, params, _run(number, 1), 0, seed + number, ""))
    return members


def next_generation(
    space: Space, members: Sequence[Member], generation: int, seed: int
) -> list[Member]:
    """Return the members of this generation, counted from 1; those of the one before have ended."""
    order = sorted(members, key=_rank)
    size = max(len(members) // _SHARE, 1)
    failed = {each.number for each in members if each.fault}
    lowest = {each.number for each in order[:size]} | failed
    upper = [each for each in order[-size:] if each.score is not None]
    return [
        _next(space, each, upper if each.number in lowest else [], generation, seed)
        for each in members
    ]


def perturbed(space: Space, params: Mapping[str, Scalar], random: Random) -> dict[str, Scalar]:
    """Return the options with numbers times 0.8 or 1.25 within the space, and some choices drawn anew."""
    found = dict(params)
    for key, dimension in space.dimensions.items():
        if any(part in key for part in _SHAPES):
            continue
        if isinstance(dimension, Choices):
            if random.random() < _DRAWN_ANEW:
                found[key] = random.choice(dimension.values)
        else:
            found[key] = _scaled(dimension, params[key], random)
    return found


def drawn(dimension: Dimension, random: Random) -> Scalar:
    """Return a value from anywhere in the dimension, alike on its own scale."""
    if isinstance(dimension, Choices):
        return random.choice(dimension.values)
    low, high = float(dimension.low), float(dimension.high)
    if dimension.log:
        return _fitted(dimension, math.exp(random.uniform(math.log(low), math.log(high))))
    if dimension.whole and dimension.step is None:
        return random.randint(int(low), int(high))
    return _fitted(dimension, random.uniform(low, high))


def line_of(generations: Sequence[Sequence[Member]], number: int) -> list[Member]:
    """Return a member of the last generation and those it descends from, the first one first."""
    line: list[Member] = []
    for members in reversed(generations):
        line.append(members[number])
        number = line[-1].parent
    return line[::-1]


def _next(
    space: Space, member: Member, upper: Sequence[Member], generation: int, seed: int
) -> Member:
    """Return the member as it goes on, or as it takes over one of `upper` that is better."""
    random = Random(f"{seed}/{generation}/{member.number}")
    parent = random.choice(upper) if upper else member
    better = member.fault or member.score is None or _rank(parent)[0] > member.score
    if parent.number == member.number or not better:
        source = "" if member.how == WEIGHTS else member.source
        fresh = member._replace(how=CONTINUED, source=source, ended=False, score=None, fault="")
        return fresh._replace(parent=member.number)
    params = perturbed(space, parent.params, random)
    changed = [key for key, value in params.items() if parent.params[key] != value]
    resumed = all(key.partition(".")[0] in _RESUMED for key in changed)
    run = _run(member.number, generation)
    return Member(
        number=member.number,
        parent=parent.number,
        how=TAKEN_OVER if resumed else WEIGHTS,
        params=params,
        run=run,
        base=parent.base if resumed else generation - 1,
        seed=parent.seed if resumed else seed + member.number,
        source=f"{run}.ckpt",
    )


def _run(number: int, generation: int) -> str:
    return f"members/{number:02d}/generation-{generation:03d}"


def _rank(member: Member) -> tuple[float, int]:
    """Return what members are ordered by: the score, and of equal ones the number."""
    return (-math.inf if member.score is None else member.score, -member.number)


def _scaled(dimension: Range, value: Scalar, random: Random) -> Scalar:
    """Return the number times a factor; a grid is left by one step at least, and zero by a new draw."""
    assert isinstance(value, int | float)
    factor = random.choice(_FACTORS)
    if value == 0:
        return drawn(dimension, random)
    step = _step(dimension)
    if step is None:
        return _fitted(dimension, value * factor)
    steps = (value * factor - dimension.low) / step
    away = math.ceil if value * factor > value else math.floor
    return _fitted(dimension, dimension.low + step * away(steps))


def _fitted(dimension: Range, value: float) -> Scalar:
    """Return the value on the grid and within the bounds, with the digits that a command shows."""
    step = _step(dimension)
    if step is not None:
        value = dimension.low + step * round((value - dimension.low) / step)
        if value > dimension.high + 1e-9 * step:
            value -= step
    shown = value if dimension.whole else float(written_value(float(value)))
    inside = min(max(shown, dimension.low), dimension.high)
    return round(inside) if dimension.whole else float(inside)


def _step(dimension: Range) -> float | None:
    return dimension.step or (1 if dimension.whole else None)
