"""The simulator as a function of JAX, made from navrl's own.

torch traces one step of all fights to a graph of aten operators, and each of these is called by its
counterpart in jax.numpy. Ticks are one node of that graph, and a loop here. `python -m peers.jax_physics`
compares steps of both.
"""

import operator
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from omegaconf import DictConfig
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from navrl.envs.combat.sim import advance
from peers.fights import Fights, configuration
from peers.jax_ppo import Array

_DTYPES = {
    torch.float32: jnp.float32,
    torch.int64: jnp.int64,
    torch.int32: jnp.int32,
    torch.bool: jnp.bool_,
}


# ---- aten operators in jax.numpy -------------------------------------------------------------------


def _made(value: Any, shape: Any, dtype: torch.dtype | None) -> Array:
    return jnp.full(shape, value, dtype=_DTYPES[dtype or torch.float32])


def _like(x: Array, value: Any, dtype: torch.dtype | None = None, **_: Any) -> Array:
    return jnp.full_like(x, value, dtype=None if dtype is None else _DTYPES[dtype])


def _slice(x: Array, dim: int = 0, start: int = 0, end: int | None = None, step: int = 1) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _expanded(x: Array, sizes: list[int]) -> Array:
    known = (1,) * (len(sizes) - x.ndim) + x.shape
    pairs = zip(known, sizes, strict=True)
    return jnp.broadcast_to(x, [had if size == -1 else size for had, size in pairs])


def _selected(x: Array, dim: int, index: int) -> Array:
    return jax.lax.index_in_dim(x, index, dim, keepdims=False)  # a slice, which XLA fuses


def _unbound(x: Array, dim: int = 0) -> list[Array]:
    return [_selected(x, dim, number) for number in range(x.shape[dim])]


def _mean(x: Array, dim: list[int], keepdim: bool = False) -> Array:
    return jnp.mean(x, axis=tuple(dim), keepdims=keepdim)


def _logical(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: function(*map(jnp.asarray, args))


_FUNCTIONS: dict[str, Callable[..., Any]] = {  # the others have the same names and arguments
    **{name: _logical(getattr(jnp, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{
        name: getattr(operator, name) for name in ("mul", "sub", "lt", "gt", "ge", "le", "eq", "ne")
    },
    "add": operator.add,
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": operator.pow,
    "__rshift__": operator.rshift,
    "rsub": lambda x, other: other - x,
    "reciprocal": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / jnp.sqrt(x),
    "bitwise_not": jnp.invert,
    "clamp": jnp.clip,
    "clamp_min": jnp.maximum,
    "clamp_max": jnp.minimum,
    "select": _selected,
    "slice": _slice,
    "expand": _expanded,
    "unbind": _unbound,
    "getitem": operator.getitem,
    "view": jnp.reshape,
    "unsqueeze": jnp.expand_dims,
    "squeeze": jnp.squeeze,
    "transpose": jnp.swapaxes,
    "permute": jnp.transpose,
    "t": jnp.transpose,
    "cat": lambda parts, dim=0: jnp.concatenate(parts, axis=dim),
    "stack": lambda parts, dim=0: jnp.stack(parts, axis=dim),
    "mean": _mean,
    "clone": lambda x, **_: x,
    "_to_copy": lambda x, dtype=None, **_: x if dtype is None else x.astype(_DTYPES[dtype]),
    "scalar_tensor": lambda value, dtype=None, **_: _made(value, (), dtype),
    "full": lambda shape, value, dtype=None, **_: _made(value, shape, dtype),
    "zeros": lambda shape, dtype=None, **_: _made(0, shape, dtype),
    "arange": lambda *ends, dtype=None, **_: jnp.arange(*ends, dtype=_DTYPES[dtype or torch.int64]),
    "full_like": _like,
    "zeros_like": lambda x, **options: _like(x, 0, **options),
    "ones_like": lambda x, **options: _like(x, 1, **options),
    "new_empty": lambda x, shape, **options: _like(jnp.zeros(shape, x.dtype), 0, **options),
}


def in_jax(function: Callable[..., Any], *examples: torch.Tensor) -> Callable[..., Any]:
    """Return a function of tensors, with a list of tensors as its result, as one of JAX arrays.."""
    graph = make_fx(torch.func.functionalize(function))(*examples)

    def run(*inputs: Array) -> list[Array]:
        found: dict[torch.fx.Node, Any] = {}
        rows = iter(inputs)
        for node in graph.graph.nodes:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda used: found[used])
            if node.op == "placeholder":
                found[node] = next(rows)
            elif node.op == "get_attr":
                found[node] = jnp.asarray(getattr(graph, node.target).numpy())
            elif node.op == "output":
                return list(args[0])
            else:
                name = getattr(node.target, "overloadpacket", node.target).__name__
                found[node] = (_FUNCTIONS.get(name) or getattr(jnp, name))(*args, **kwargs)
        raise AssertionError("a graph ends with its output")

    return run


# ---- one decision in all fights --------------------------------------------------------------------


class Ticks:
    """All ticks of a decision: one node in torch's graph, and a loop in JAX."""

    def __init__(self, params: Any) -> None:
        self._params, self._left = params, 0
        self._structure: Any = None
        self._layout: list[tuple[torch.Size, torch.dtype]] = []
        self._library = torch.library.Library("peers", "FRAGMENT")
        self._library.define("all_ticks(Tensor[] leaves) -> Tensor[]")
        self._library.impl("all_ticks", self._run, "CompositeExplicitAutograd")

    def __call__(self, _: Any, orders: Any, vehicles: Any) -> Any:
        """Take the place of the simulator's tick: the first call of a decision is all of them."""
        if self._left == 0:
            self._left = self._params.ticks
            leaves, self._structure = pytree.tree_flatten((orders, vehicles))
            self._layout = [(leaf.shape, leaf.dtype) for leaf in leaves]
            vehicles = self._unflatten(leaves[: len(leaves)], torch.ops.peers.all_ticks(leaves))
        self._left -= 1
        return vehicles

    def _unflatten(self, leaves: list[Any], moved: list[Any]) -> Any:
        constant = len(leaves) - len(moved)
        return pytree.tree_unflatten([*leaves[:constant], *moved], self._structure)[1]

    def _tick(self, *leaves: torch.Tensor) -> list[torch.Tensor]:
        orders, vehicles = pytree.tree_unflatten(list(leaves), self._structure)
        return [x.clone() for x in pytree.tree_leaves(advance.tick(self._params, orders, vehicles))]

    def _run(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        moved = self._tick(*leaves)
        constant = len(leaves) - len(moved)
        for _ in range(1, self._params.ticks):
            moved = self._tick(*leaves[:constant], *moved)
        return moved

    def in_jax(self) -> Callable[[list[Array]], list[Array]]:
        """Return the loop of JAX; to be called after the first call."""
        once = in_jax(self._tick, *(torch.zeros(size, dtype=kind) for size, kind in self._layout))

        def run(leaves: list[Array]) -> list[Array]:
            constant = len(leaves) - len(jax.eval_shape(once, *leaves))
            orders = leaves[:constant]
            return jax.lax.fori_loop(
                0, self._params.ticks, lambda _, moved: once(*orders, *moved), leaves[constant:]
            )

        return run


class Simulator:
    """The fights of navrl as a function of JAX: step(action, *packed) -> [*packed, *results]."""

    def __init__(self, cfg: DictConfig) -> None:
        self.fights = Fights(cfg)
        self.opening = jnp.asarray(self.fights.reset().numpy())
        env = self.fights.env
        packed, structure = pytree.tree_flatten(env._started())

        def step(action: torch.Tensor, *leaves: torch.Tensor) -> Any:
            state = pytree.tree_unflatten(list(leaves), structure)
            after, ahead, root = env._whole_step_eager(state, action, None, env._seed)
            results = [ahead[name] for name in ("observation/ego", "reward", "done", "episode")]
            return [*pytree.tree_leaves(after), *results, root["observation/ego"]]

        ticks, kept = Ticks(env.params), advance._tick
        advance._tick = ticks
        try:
            action = torch.zeros(cfg.num_envs, 3)
            self._step = in_jax(step, action, *packed)
        finally:
            advance._tick = kept
        _FUNCTIONS["all_ticks"] = ticks.in_jax()
        self.packed = [jnp.asarray(leaf.numpy()) for leaf in packed]

    def step(self, action: Array, packed: list[Array]) -> tuple[list[Array], list[Array]]:
        """Return the state after a decision, and what it made: see `_step`."""
        found = self._step(action, *packed)
        return found[: len(packed)], found[len(packed) :]

    def check(self, steps: int) -> float:
        """Return the largest difference of an observation or reward, in steps from equal states."""
        step, worst = jax.jit(self.step), 0.0
        env = self.fights.env
        for number in range(steps):
            action = torch.rand(self.fights.num_envs, 3, generator=torch.manual_seed(number))
            leaves = [jnp.asarray(leaf.numpy()) for leaf in pytree.tree_leaves(env._started())]
            _, (upcoming, reward, *_) = step(jnp.asarray(action.numpy()), leaves)
            env._packed, ahead, _ = env._whole_step_eager(env._started(), action, None, env._seed)
            for ours, theirs in ((upcoming, "observation/ego"), (reward, "reward")):
                worst = max(worst, float(jnp.abs(ours - ahead[theirs].numpy()).max()))
        return worst


if __name__ == "__main__":
    simulator = Simulator(configuration(["num_envs=64", "compile=off", *sys.argv[1:]]))
    print(f"largest difference of an observation or reward: {simulator.check(20):.1e}")
