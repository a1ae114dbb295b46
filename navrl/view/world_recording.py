"""Recordings of any world: the shapes that it draws, and its rewards, statistics, actions and observations.

A world draws its state with `draw(state)`; one that does not, and every world from elsewhere, is shown by its
numbers alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.envs.core.calls import call, message_of
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.shapes import Batch, Shape, batched
from navrl.view.episodes import Act, first_episodes

LONGEST = 2_000  # steps of an episode that are recorded
MOST_LINES = 24  # of an observation or an action
_TERM = "reward_"  # begins the names of the sums of reward terms


class Drawing(NamedTuple):
    """A shape of one episode; T states, and P points of each of its K instances."""

    shape: Shape
    points: Tensor  # (T, 2, P, K)
    radius: Tensor  # (T, K)
    colour: Tensor  # whole numbers (T, K); zeros if the shape names it
    visible: Tensor  # (T, K)


class Curve(NamedTuple):
    """Numbers over the steps of one episode."""

    name: str
    labels: list[str]  # of the lines; one alone has an empty label
    values: Tensor  # (T, lines); not a number before the first step
    left_out: int = 0  # lines beyond the first MOST_LINES
    is_observed: bool = False  # a leaf of the observation


class Episode(NamedTuple):
    """One recorded episode of so many steps, hence of T = steps + 1 states."""

    steps: int
    ending: str  # terminated, truncated, or cut: longer than what is recorded
    statistics: dict[str, float]  # at the end, with return and length
    rates: tuple[str, ...]  # those of them that are 0 or 1
    happened: dict[str, int]  # the step at which a rate became 1
    drawings: list[Drawing]
    curves: list[Curve]


class _Frame(NamedTuple):
    """The state of all envs after a step, on the CPU."""

    shapes: list[Batch]
    leaves: dict[str, Tensor]  # (N, ...) of the observation, the action, "reward" and "episode"
    ended: dict[str, Tensor]  # bool (N,)


def play_worlds(env: Any, policy: Act) -> list[Episode]:
    """Play and record the first episode of every env."""
    draws = isinstance(env, BatchedEnv)
    described: list[Shape] = []
    first: list[str] = []
    frames: list[_Frame] = []
    lengths = torch.zeros(env.batch_size, dtype=torch.int64)
    for number, (stepped, running) in enumerate(first_episodes(env, policy)):
        picture = draw(env, number, first if number else None) if draws else Picture([], [], [])
        if number == 0:
            described, first = picture.shapes, picture.kinds
        frames.append(_frame(env, stepped, picture.batches))
        if number > 0:
            lengths += running
        if number == LONGEST:
            break
    return [
        _episode(env, described, frames[: length + 1], index)
        for index, length in enumerate(lengths.tolist())
    ]


class Picture(NamedTuple):
    """The shapes that a world draws of one state."""

    shapes: list[Shape]
    batches: list[Batch]
    kinds: list[str]


def draw(env: BatchedEnv, step: int, first: Sequence[str] | None = None) -> Picture:
    """Return the picture of the current state; raise ConfigError about one without the kinds of the first."""
    drawn = call(env, "draw", env.state)
    if not isinstance(drawn, list | tuple) or hasattr(drawn, "_fields"):
        raise ConfigError(
            f"draw(state) returned a {type(drawn).__name__}; expected a list of shapes; change draw"
        )
    shapes = [*drawn]
    batches = [_batch(shape, env.batch_size[0]) for shape in shapes]
    kinds = [_kind(*each) for each in zip(shapes, batches, strict=True)]
    if first is not None and kinds != [*first]:
        raise _changed(first, kinds, step)
    return Picture(shapes, batches, kinds)


def _batch(shape: Shape, num_envs: int) -> Batch:
    """Return the numbers of a shape; raise ConfigError about one that is not made as its class says."""
    try:
        return batched(shape, num_envs)
    except ConfigError:
        raise
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise ConfigError(
            f"draw(state) returned a {type(shape).__name__} that cannot be drawn ({message_of(error)}); "
            "expected places (2, N), and numbers or tensors (N,) for the rest; change draw"
        ) from error


def _kind(shape: Shape, batch: Batch) -> str:
    """Return what a shape is called, with its numbers of places and of points."""
    _, points, count, _ = batch.points.shape
    numbers = f" of {points} points" if points > 1 else ""
    return f"{'' if count == 1 else f'{count} x '}{type(shape).__name__}{numbers}"


def _changed(first: Sequence[str], now: Sequence[str], step: int) -> ConfigError:
    """Return the error about a draw() that does not return the shapes of the first step."""
    return ConfigError(
        f"draw(state) returned {', '.join(now) or 'nothing'} at step {step}; expected the shapes of the "
        f"first step, {', '.join(first) or 'none'}; change draw to use visible= for what comes and goes"
    )


def _frame(env: Any, stepped: TensorDictBase, shapes: list[Batch]) -> _Frame:
    ahead = stepped.get("next", None)
    now = stepped if ahead is None else ahead
    leaves = {}
    for key in env.observation_spec.keys(True, True):
        leaves[_name(key)] = now.get(key)
    if ahead is not None:
        leaves |= {_name(key): stepped.get(key) for key in env.action_keys}
        leaves |= {_name(key): ahead.get(key) for key in env.reward_keys}
    flags = {} if ahead is None else {name: ahead.get(name) for name in ("terminated", "truncated")}
    return _Frame(
        shapes=[Batch(*map(_copied, batch)) for batch in shapes],
        leaves={name: _copied(rows).float() for name, rows in leaves.items()},
        ended={name: _copied(flag).reshape(env.batch_size) for name, flag in flags.items()},
    )


def _copied(rows: Tensor) -> Tensor:
    """Return a copy on the CPU: the simulator may write the next step where this one lies."""
    return rows.detach().cpu().clone()


def _name(key: str | tuple[str, ...]) -> str:
    return key if isinstance(key, str) else "/".join(key)


def _episode(env: Any, described: Sequence[Shape], frames: Sequence[_Frame], index: int) -> Episode:
    """Return the recording of one env."""
    leaves = {
        name: torch.stack([frame.leaves[name][index] for frame in frames[1:]])
        for name in frames[-1].leaves
    }
    for name in leaves.keys() & frames[0].leaves.keys():
        leaves[name] = torch.cat([frames[0].leaves[name][index].unsqueeze(0), leaves[name]])
    sums = dict(zip(env.episode_keys, leaves.pop("episode").unbind(1), strict=True))
    endings = [name for name, flag in frames[-1].ended.items() if bool(flag[index])]
    return Episode(
        steps=len(frames) - 1,
        ending=endings[0] if endings else "cut",
        statistics={name: float(values[-1]) for name, values in sums.items()},
        rates=tuple(env.rate_names),
        happened=_first_steps(sums, env.rate_names),
        drawings=[
            _drawing(shape, [frame.shapes[number] for frame in frames], index)
            for number, shape in enumerate(described)
            if frames[0].shapes[number].points.numel()  # such as the links of a single drone: none
        ],
        curves=_curves(env, sums, leaves),
    )


def _first_steps(sums: Mapping[str, Tensor], rates: Sequence[str]) -> dict[str, int]:
    """Return the step from which on a rate is 1, for the rates that are 1 at the end."""
    found = {}
    for name in rates:
        values = sums[name]
        if values[-1] > 0.5:
            below = (values < 0.5).nonzero()
            found[name] = int(below[-1]) + 1 if len(below) else 0
    return found


def _drawing(shape: Shape, batches: Sequence[Batch], index: int) -> Drawing:
    fields = [
        torch.stack([rows[..., min(index, rows.shape[-1] - 1)] for rows in field])
        for field in zip(*batches, strict=True)
    ]
    return Drawing(shape, *fields)


def _curves(env: Any, sums: Mapping[str, Tensor], leaves: Mapping[str, Tensor]) -> list[Curve]:
    """Return what the page shows over time, the most important first."""
    terms = {name.removeprefix(_TERM): row for name, row in sums.items() if name.startswith(_TERM)}
    rewards = [name for name in leaves if name.split("/")[-1] == "reward"]
    actions = [_name(key) for key in env.action_keys]
    curves = [_curve(name, leaves[name]) for name in rewards]
    if len(terms) > 1:
        changes = torch.stack([row.diff() for row in terms.values()], 1)
        curves.append(Curve("reward terms", list(terms), _after_step(changes)))
    named = {"return": sums["return"], **{name: sums[name] for name in env.statistic_names}}
    curves += [Curve(name, [""], row.unsqueeze(1)) for name, row in named.items()]
    rest = [name for name in leaves if name not in (*rewards, *actions)]
    return [*curves, *(_curve(name, leaves[name]) for name in (*actions, *rest))]


def _curve(name: str, leaf: Tensor) -> Curve:
    """Return a leaf (T, ...) as lines; an action and a reward belong to the state after them."""
    lines = leaf.reshape(leaf.shape[0], -1)
    count = lines.shape[1]
    lines = lines[:, :MOST_LINES]
    labels = [str(number) for number in range(lines.shape[1])] if count > 1 else [""]
    is_observed = name.split("/")[-1] not in ("reward", "action")
    values = lines if is_observed else _after_step(lines)
    return Curve(name, labels, values, max(0, count - MOST_LINES), is_observed)


def _after_step(values: Tensor) -> Tensor:
    """Return values of steps as values of states, of which the first has none."""
    return torch.cat([torch.full_like(values[:1], math.nan), values])
