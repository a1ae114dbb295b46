"""One look at a world while it is built: its hooks on a few envs, and a plain sentence about what is wrong.

`check_opening` calls `initial` and `observe`, `check_step` all the others. Both are eager, once for each env
that is built, and draw no number from torch's generators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torchrl.data import Bounded, TensorSpec

from navrl.config.checks import ConfigError, require, require_choice, require_whole
from navrl.envs.core import random, specs
from navrl.envs.core.calls import HostReads, call, named, owner, shape_of, wrong
from navrl.envs.core.rewards import Transition, WeightedReward

if TYPE_CHECKING:
    from navrl.envs.core.env import BatchedEnv

SIZES = (13, 11)  # numbers of envs; two, because an axis of features may be as long as one of them
_NUMBERS = (torch.float32, torch.int32, torch.int64, torch.bool)
_LEAVES = ("action_mask", "alive", "state", "agents/action_mask", "agents/alive")
_OBSERVED = ("observation/", "agents/observation/")


def lacks(env: BatchedEnv, hook: str) -> ConfigError:
    """Return the error about a hook that a world has to have."""
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    return ConfigError(f"{kind} lacks {hook}; expected a method of that name; add it to the class")


def check_options(env: BatchedEnv, reward: Any, horizon: int | None, *, judged: bool) -> None:
    """Raise ConfigError unless the names, the reward and the end of episodes can be used."""
    names, rates = env.statistic_names, env.rate_names
    twice = {"return", "length"} & {*names} or {name for name in names if names.count(name) > 1}
    expected = "a name of its own for each statistic, other than return and length"
    require(not twice, f"{owner(env, 'statistic_names')}", names, expected)
    require(
        {*rates} <= {*names},
        f"{owner(env, 'rate_names')}",
        rates,
        f"some of {', '.join(names) or 'none'}",
    )
    require_choice("env.objective", env.objective, (*(rates or names), "return"))
    if not isinstance(reward, WeightedReward):
        raise ConfigError(
            f"reward is {_kind(reward)}; expected _target_: navrl.envs.WeightedReward, terms and weights; "
            "change the YAML of the reward"
        )
    if horizon is not None:
        require_whole("env.horizon", horizon, 1)
    elif not judged:
        raise ConfigError(
            f"nothing ends an episode of env={env.name}: no judge(state) and no horizon; expected one "
            f"of them; set env.horizon, or add judge to {type(env).__module__}.{type(env).__qualname__}"
        )


def check_columns(env: BatchedEnv) -> None:
    """Raise ConfigError about a console column that shows a metric which there will not be."""
    parts = [key for key in env.episode_keys if key.startswith("reward_")]
    known = [f"episode/{key}" for key in env.episode_keys if key not in parts]
    known += [key.replace("reward_", "reward/", 1) for key in parts]
    for label, metric in env.headline.items():
        if "/" not in metric or metric.startswith(("episode/", "reward/")):
            require_choice(f"env.headline.{label}", metric, known)


def check_opening(env: BatchedEnv, seed: Tensor) -> dict[str, Tensor]:
    """Return the leaves that a few envs observe first; raise ConfigError about what is wrong with them."""
    action: Any = getattr(env, "action", None)
    if not hasattr(action, "spec"):
        raise wrong(
            env, "action", f"= {action}", "specs.Bounds(-1.0, 1.0), specs.Choices(3) or the like"
        )
    first, *others = SIZES
    leaves = _opening(env, seed, first)
    shapes = {name: tuple(leaf.shape[:-1]) for name, leaf in leaves.items()}
    if not any(first in shape for shape in shapes.values()):
        return leaves
    for count in others:
        for name, leaf in _opening(env, seed, count).items():
            if tuple(leaf.shape[:-1]) != shapes.get(name):
                found = f"returns '{name}' {(*shapes[name], first)} and then {tuple(leaf.shape)}"
                expected = (
                    f"one shape for {first} and for {count} envs but for the last axis, of envs"
                )
                raise wrong(env, "observe", found, expected)
    return leaves


def _opening(env: BatchedEnv, seed: Tensor, count: int) -> dict[str, Tensor]:
    state = call(env, "initial", keys(seed, count))
    _check_state(env, "initial", state, count)
    leaves: dict[str, Tensor] = call(env, "observe", state)
    _check_leaves(env, leaves, count)
    return leaves


def check_step(env: BatchedEnv) -> list[str]:
    """Raise ConfigError about what is wrong with a step of a few envs; return sentences about what is odd."""
    count = SIZES[0]
    state = call(env, "initial", keys(env._seed, count))
    action = _middle(env, _lead(env, count)).movedim(0, -1)
    before = _versions(state, action)
    devices = [env.device] if env.device.type == "cuda" else []
    with torch.random.fork_rng(devices), HostReads() as reads:  # frozen opponents draw
        after, events = _pair(
            env, "advance", call(env, "advance", state, action), "the state and events"
        )
        _check_same(env, state, after, count)
        terminated, truncated = _check_judged(env, call(env, "judge", after), count)
        transition = Transition(env.params, state, after, events, terminated, truncated)
        _check_score(env, transition, count)
        _check_own_rewards(env, transition, count)
        _check_statistics(env, after, count)
        _check_leaves(env, call(env, "observe", after), count)
    changed = [
        name for name, version in _versions(state, action).items() if version != before[name]
    ]
    if changed:
        found = f"changes {changed[0]} in place"
        raise wrong(env, "advance", found, "new tensors, as in state._replace(x=state.x + 1.0)")
    return [*_identical(env, state), *reads.found]


def keys(seed: Tensor, count: int) -> Tensor:
    """Return the keys of the first episode of this many envs."""
    env_id = torch.arange(count, device=seed.device)
    return random.episode_key(seed, env_id, torch.zeros_like(env_id))


# ---- states ----------------------------------------------------------------------------------


def _check_state(env: BatchedEnv, hook: str, state: Any, count: int) -> None:
    if not (isinstance(state, tuple) and hasattr(state, "_fields")):
        raise wrong(env, hook, f"returns {_kind(state)}", "a NamedTuple of tensors (..., N)")
    for name, leaf in named([state]):
        problem = _problem(leaf, count, env.device)
        if problem:
            expected = (
                "a tensor (..., N) of float32, int32, int64 or bool, made from the key or the state"
            )
            raise wrong(env, hook, f"returns {name} {problem}", expected)


def _check_same(env: BatchedEnv, before: Any, after: Any, count: int) -> None:
    """Raise unless the state after a step has the fields, shapes and types of the state before."""
    _check_state(env, "advance", after, count)
    if type(before) is not type(after):
        found = f"returns a {type(after).__name__}"
        raise wrong(env, "advance", found, f"a {type(before).__name__}, as initial returns")
    old, new = dict(named([before])), dict(named([after]))
    for name in (*old, *new):
        ours, theirs = (_layout(one.get(name), count) for one in (old, new))
        if ours != theirs:
            raise wrong(
                env, "advance", f"returns {name} {theirs}", f"{ours}, as initial returns it"
            )


def _layout(leaf: Tensor | None, count: int) -> str:
    return "not at all" if leaf is None else f"{shape_of(leaf, count)} {_dtype(leaf)}"


def _problem(leaf: Any, count: int, device: torch.device) -> str:
    """Return what is wrong with a field of a state, or nothing."""
    if not isinstance(leaf, Tensor):
        return f"= {leaf!r}, {_kind(leaf)}"
    if leaf.dtype not in _NUMBERS:
        return f"of {_dtype(leaf)}"
    if leaf.device.type != device.type:
        return f"on {leaf.device} where the env is on {device}"
    return "" if leaf.ndim and leaf.shape[-1] == count else f"of shape {shape_of(leaf, count)}"


def _versions(state: Any, action: Tensor) -> dict[str, int]:
    return {name: leaf._version for name, leaf in named([state, action])}


def _identical(env: BatchedEnv, state: Any) -> list[str]:
    """Return a sentence if all envs begin alike."""
    if any(bool((leaf != leaf[..., :1]).any()) for _, leaf in named([state])):
        return []
    return [
        f"all episodes of env={env.name} begin alike: {owner(env, 'initial')} draws nothing from the key; "
        "draw with navrl.envs.core.random.uniform if they should differ"
    ]


# ---- leaves of the observation ---------------------------------------------------------------


def _check_leaves(env: BatchedEnv, leaves: Any, count: int) -> None:
    if not isinstance(leaves, dict) or not leaves:
        found = "an empty dict" if isinstance(leaves, dict) else _kind(leaves)
        expected = 'a dict {"observation/x": (features, N)}'
        raise wrong(env, "observe", f"returns {found}", expected)
    for name, leaf in leaves.items():
        _check_leaf(env, str(name), leaf, count)
    alone, team = (any(name.startswith(start) for name in leaves) for start in _OBSERVED)
    if alone == team:
        found = f"returns the leaves {', '.join(leaves)}"
        expected = (
            'names that begin with "observation/", or all with "agents/observation/" for a team'
        )
        raise wrong(env, "observe", found, expected)
    sizes = {leaf.shape[0] for name, leaf in leaves.items() if name.startswith("agents/")}
    if len(sizes) > 1:
        found = f"returns leaves of {' and '.join(map(str, sorted(sizes)))} agents"
        raise wrong(env, "observe", found, "(agents, ..., N) with one number of agents")
    _check_mask(env, leaves, count)


def _check_leaf(env: BatchedEnv, name: str, leaf: Any, count: int) -> None:
    team = name.startswith("agents/")
    if not name.startswith(_OBSERVED) and name not in _LEAVES:
        last = name.rpartition("/")[2]
        meant = f"; did you mean 'observation/{last}' or 'agents/observation/{last}'?"
        expected = f"names such as observation/x, or one of {', '.join(_LEAVES)}{meant}"
        raise wrong(env, "observe", f"returns the leaf '{name}'", expected)
    if not isinstance(leaf, Tensor):
        raise wrong(env, "observe", f"returns '{name}' = {_kind(leaf)}", "a tensor")
    flag = specs.is_flag(name.rpartition("/")[2])
    dtype = torch.bool if flag else torch.float32
    axes = ("agents", "features", "N")[not team :]
    if leaf.dtype is not dtype:
        write = "torch.bool" if flag else "float32: write .float()"
        raise wrong(env, "observe", f"returns '{name}' of {_dtype(leaf)}", write)
    if leaf.ndim < len(axes) or leaf.shape[-1] != count:
        expected = f"({', '.join(axes)}) with the env axis last"
        raise wrong(env, "observe", f"returns '{name}' of shape {shape_of(leaf, count)}", expected)
    if leaf.device.type != env.device.type:
        raise wrong(env, "observe", f"returns '{name}' on {leaf.device}", f"it on {env.device}")
    if not bool(torch.isfinite(leaf).all()):
        raise wrong(env, "observe", f"returns '{name}' with NaN or infinity", "finite numbers")


def _check_mask(env: BatchedEnv, leaves: Mapping[str, Tensor], count: int) -> None:
    """Raise unless a mask of the action has a row for each choice."""
    mask = leaves.get("action_mask", leaves.get("agents/action_mask"))
    choices = sum(getattr(env.action, "sizes", ()))
    if mask is not None and choices and mask.shape[-2] != choices:
        found = f"returns 'action_mask' of shape {shape_of(mask, count)}"
        raise wrong(env, "observe", found, f"{choices} rows, one for each choice of the action")


# ---- rewards, ends and statistics ------------------------------------------------------------


def _check_judged(env: BatchedEnv, judged: Any, count: int) -> tuple[Tensor, Tensor]:
    ends = _pair(env, "judge", judged, "terminated and truncated, bool (N,) each")
    for name, flags in zip(("terminated", "truncated"), ends, strict=True):
        if not _is_row(flags, count, torch.bool):
            raise wrong(env, "judge", f"returns {name} {_described(flags, count)}", "bool (N,)")
    return ends


def _check_score(env: BatchedEnv, transition: Transition, count: int) -> None:
    reward, parts = _pair(env, "score", call(env, "score", transition), "reward and its parts")
    names = env._reward.names
    if len(parts) != len(names):
        raise wrong(
            env, "score", f"returns {len(parts)} parts", f"{len(names)}: {', '.join(names)}"
        )
    for name, part in zip(names, parts, strict=True):
        where = f"reward term '{name}'"
        if not _is_row(part, count, torch.float32):
            raise ConfigError(
                f"{where} is {_described(part, count)}; expected float32 (N,), one number per env; "
                f"change {_term(env, name)}"
            )
        if not bool(torch.isfinite(part).all()):
            raise ConfigError(
                f"{where} is NaN or infinite in the first step; expected finite numbers; "
                f"change {_term(env, name)}"
            )
    if not _is_row(reward, count, torch.float32):
        raise wrong(env, "score", f"returns the reward {_described(reward, count)}", "float32 (N,)")


def _term(env: BatchedEnv, name: str) -> str:
    """Return the full name of the function of a reward term."""
    term: Any = getattr(env._reward, "terms", {}).get(name)
    function = getattr(term, "func", term)
    return (
        f"{getattr(function, '__module__', 'reward')}.{getattr(function, '__qualname__', 'terms')}"
    )


def _check_own_rewards(env: BatchedEnv, transition: Transition, count: int) -> None:
    if not env.has_own_rewards:
        return
    own, size = call(env, "own_rewards", transition), _lead(env, count)[-1]
    if not (isinstance(own, Tensor) and own.shape == (size, count) and own.dtype is torch.float32):
        raise wrong(env, "own_rewards", f"returns {_described(own, count)}", f"float32 ({size}, N)")


def _check_statistics(env: BatchedEnv, state: Any, count: int) -> None:
    rows, names = call(env, "statistics", state), env.statistic_names
    listed = f"one (N,) for each of statistic_names ({', '.join(names) or 'none'})"
    if not isinstance(rows, list | tuple):
        raise wrong(env, "statistics", f"returns {_kind(rows)}", f"a list, {listed}")
    if len(rows) != len(names):
        raise wrong(env, "statistics", f"returns {len(rows)} rows", listed)
    for name, row in zip(names, rows, strict=True):
        if not _is_row(row, count, torch.float32):
            found = f"returns '{name}' {_described(row, count)}"
            raise wrong(env, "statistics", found, "float32 (N,): write .float() for flags")


def _pair(env: BatchedEnv, hook: str, result: Any, what: str) -> Any:
    """Return the two values of a hook; a NamedTuple is one value, whatever the number of its fields."""
    if isinstance(result, tuple | list) and not hasattr(result, "_fields") and len(result) == 2:
        return result
    found = f"returns {_kind(result)}"
    if isinstance(result, tuple | list) and not hasattr(result, "_fields"):
        found = f"returns {len(result)} values"
    raise wrong(env, hook, found, f"two values, {what}")


# ---- words -----------------------------------------------------------------------------------


def _is_row(value: Any, count: int, dtype: torch.dtype) -> bool:
    return isinstance(value, Tensor) and value.shape == (count,) and value.dtype is dtype


def _described(value: Any, count: int) -> str:
    is_tensor = isinstance(value, Tensor)
    return (
        f"of shape {shape_of(value, count)}, {_dtype(value)}" if is_tensor else f"= {_kind(value)}"
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, Tensor):
        return "one tensor"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"only a {name}"
    return "None" if value is None else f"a {name}"


def _dtype(leaf: Tensor) -> str:
    return str(leaf.dtype).removeprefix("torch.")


def _lead(env: BatchedEnv, count: int) -> tuple[int, ...]:
    """Return the batch shape of an action of a few envs: with the agents of a team."""
    group = env.observation_spec.get("agents", None)
    return (count,) if group is None else (count, group.shape[-1])


def _middle(env: BatchedEnv, shape: Sequence[int]) -> Tensor:
    """Return actions in the middle of their bounds, or the first choices."""
    spec: TensorSpec = env.action.spec(shape, env.device)
    if not isinstance(spec, Bounded):
        return spec.zero()
    return spec.project((spec.low + spec.high) / 2.0)
