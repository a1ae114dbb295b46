"""Calls of a world's hooks: errors in a user's code as one sentence, and what makes a GPU wait."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from navrl.config.checks import ConfigError, did_you_mean
from navrl.envs.core.rewards import Transition

if TYPE_CHECKING:
    from navrl.envs.core.env import BatchedEnv

_CALLS = {
    "initial": "initial(key)",
    "advance": "advance(state, action)",
    "observe": "observe(state)",
    "judge": "judge(state)",
    "statistics": "statistics(state)",
    "score": "score(transition)",
    "own_rewards": "own_rewards(transition)",
    "draw": "draw(state)",
}
_OF_REWARD = ("score", "own_rewards")
_LIBRARIES = {"navrl", "torch", "torchrl", "tensordict", "numpy", *sys.stdlib_module_names}
# What reads a number of a tensor on the host, or has as many rows as there are true values.
_READS = ("item", "__bool__", "__float__", "__int__", "__index__", "tolist", "numpy", "nonzero")
READS_ON_HOST = "reads a tensor on the host"
_CONDITION = (
    "decides in Python by a tensor, as in `if` or `and`; expected torch.where, & and |, because every env "
    "decides for itself"
)
_NUMBER = (
    "turns a tensor into a Python number; expected tensors (N,), because every env has its own"
)


def call(env: BatchedEnv, hook: str, *arguments: Any) -> Any:
    """Return what a hook of the world returns; raise ConfigError about an error in a user's code."""
    method = env.advance_given if hook == "advance" else getattr(env, hook)
    given = (*arguments, None) if hook == "advance" else arguments  # nothing decided outside
    try:
        return method(*given)
    except ConfigError:
        raise
    except Exception as error:
        own, place = getattr(env, hook), users_place(error)
        if isinstance(error, TypeError) and not _accepts(own, arguments):
            found = f"is written as {hook}{inspect.signature(own)}"
            raise wrong(
                env, hook, found, f"a method that takes {_CALLS[hook][len(hook) :]}"
            ) from error
        a_term = hook in _OF_REWARD and isinstance(error, RuntimeError)  # of a wrong length
        if place is None and not a_term and not _is_users(type(env).__module__):
            raise
        change = place or ("the terms of the reward" if a_term else owner(env, hook))
        raise ConfigError(
            f"{_CALLS[hook]} of {type(env).__name__} {_reason(error, arguments)}; change {change}"
        ) from error


def _accepts(method: Any, arguments: Sequence[Any]) -> bool:
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        return False
    return True


def _reason(error: Exception, arguments: Sequence[Any]) -> str:
    """Return what an error in a hook means, and what was expected."""
    text = message_of(error)
    if "Boolean value of Tensor" in text:
        return _CONDITION
    if "converted to Scalar" in text or "converted to Python scalars" in text:
        return _NUMBER
    if isinstance(error, AttributeError) and error.name:
        known = [*getattr(error.obj, "_fields", dir(error.obj))]
        text += did_you_mean(error.name, known)
    given = [] if isinstance(arguments[0], Tensor | Transition) else named(arguments)
    shapes = [f"{name} {shape_of(leaf, leaf.shape[-1])}" for name, leaf in given]
    expected = f"; expected operations on {', '.join(shapes)}" if shapes else ""
    return f"raises {type(error).__name__}: {text}{expected}"


def wrong(env: BatchedEnv, hook: str, found: str, expected: str) -> ConfigError:
    """Return the error about a hook: what it does, and what was expected."""
    name = f"{_CALLS.get(hook, hook)} of {type(env).__name__}"
    return ConfigError(f"{name} {found}; expected {expected}; change {owner(env, hook)}")


def owner(env: BatchedEnv, hook: str) -> str:
    """Return the full name of a hook."""
    return f"{type(env).__module__}.{type(env).__qualname__}.{hook}"


def users_place(error: BaseException) -> str | None:
    """Return function, file and line of the innermost code that is in no library, None without any."""
    found, trace = None, error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__"))
        if _is_users(module):
            file = Path(code.co_filename).name
            found = f"{module}.{code.co_qualname} ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())


def _is_users(module: str) -> bool:
    """Return whether a module belongs to a user, not to navrl or a library."""
    return module.partition(".")[0] not in _LIBRARIES


class HostReads(TorchFunctionMode):
    """Collects a sentence for each line of a hook that reads a tensor on the host, where a GPU would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and note where it waits."""
        name = getattr(func, "__name__", "")
        masked = name == "__getitem__" and _has_flags(args[1])
        if name in _READS or masked or (name == "where" and len(args) == 1):
            self._note("an index of flags" if masked else f"{name.strip('_')}()")
        return func(*args, **(kwargs or {}))

    def _note(self, name: str) -> None:
        """Add the innermost line outside torch, unless a check of ours and not a hook got there."""
        line, frame = None, inspect.currentframe()
        frame = frame and frame.f_back and frame.f_back.f_back
        while frame is not None and frame.f_code is not call.__code__:
            module = str(frame.f_globals.get("__name__"))
            if module.endswith("envs.core.validation"):
                return
            if line is None and (_is_users(module) or module.startswith("navrl.")):
                line = f"{module}.{frame.f_code.co_qualname}, line {frame.f_lineno}"
            frame = frame.f_back
        sentence = (
            f"{name} {READS_ON_HOST} in every step, so that the step does not compile and a GPU "
            f"waits; expected operations on tensors, such as torch.where; change {line}"
        )
        if sentence not in self.found:
            self.found.append(sentence)


def _has_flags(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(getattr(part, "dtype", None) is torch.bool for part in parts)


def named(values: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the leaves of a state, and of an action after it, with names such as state.place_m."""
    return [
        (f"{root}{pytree.keystr(path)}", leaf)
        for value, root in zip(values, ("state", "action"), strict=False)
        for path, leaf in pytree.tree_flatten_with_path(value)[0]
    ]


def shape_of(leaf: Tensor, count: int) -> str:
    """Return a shape with N for the number of envs."""
    axes = ["N" if size == count else str(size) for size in leaf.shape]
    return f"({', '.join(axes)}{',' * (len(axes) == 1)})"
