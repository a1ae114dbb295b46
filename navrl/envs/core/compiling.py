"""torch.compile with a way back: what does not compile runs eager, after one warning."""

from __future__ import annotations

import contextlib
import copy
import shutil
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from navrl.envs.core.one_node import cacheable

# Without the first four Inductor cuts a decision into dozens of small loops and is four times slower. The
# next six make it compile in a fraction of the time: what several values need is computed once instead of in
# each of them (it stays in registers all the same), few pairs of loops are looked at, no tail is vectorised.
_TUNING = {
    "cpp.enable_tiling_heuristics": False,
    "max_fusion_size": 100_000,
    "cpp.max_horizontal_fusion_size": 100_000,
    "realize_opcount_threshold": 30,
    "realize_reads_threshold": 1,
    "realize_acc_reads_threshold": 64,
    "max_fusion_buffer_group_pairwise_attempts": 4,
    "loop_ordering_after_fusion": False,
    "cpp.enable_loop_tail_vec": False,
    "cpp.enable_floating_point_contract_flag": "fast",  # a * b + c in one instruction
    "size_asserts": False,
}

# Graphs that call what torch does not know, or does not trust, are compiled anew in every process, in ten
# times the time, unless it is named here together with something that changes when it does.
_CACHEABLE = "unsafe_marked_cacheable_functions"
_AUTOCAST = {
    f"torch.amp.autocast_mode.{name}": str(torch.__version__)
    for name in ("_enter_autocast", "_exit_autocast")
}

# For what is made of matrix products, which want Inductor's own settings but for one: it would not vectorise
# what reads columns of rows, such as the logits of one choice.
_PRODUCTS = {
    "cpp.enable_tiling_heuristics": False,
    "size_asserts": False,  # small networks are a matter of microseconds
    "alignment_asserts": False,
    _CACHEABLE: _AUTOCAST,
}

# What a step reads besides tensors never changes; to check it costs more than the step's overhead.
_GUARDS: dict[str, Any] = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}

COMPILE_MODES = ("auto", "on", "off")
_YAML_MODES = {True: "on", False: "off"}  # YAML reads a bare on or off as a truth value


class Compilation(NamedTuple):
    """What a first call took; `kept`: an earlier process had left the compiled graph on disk."""

    name: str
    seconds: float
    kept: bool


compilations: list[Compilation] = []  # of this process


class Compiled:
    """A simulator step that is compiled at its first call."""

    name = "the simulator step"
    differentiable = False

    def __init__(self, function: Callable[..., Any], mode: str | bool) -> None:
        mode = _YAML_MODES[mode] if isinstance(mode, bool) else mode
        if mode not in COMPILE_MODES:
            raise ValueError(
                f"compile = {mode!r}; expected one of {', '.join(COMPILE_MODES)}; change compile"
            )
        self.eager = function
        self.mode = mode
        self._run = function if mode == "off" else self._first

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Not compiled yet: the graph of a method holds the tensors of the object it was made for."""
        return type(self)(copy.deepcopy(self.eager, memo), self.mode)

    def __call__(self, *args: Any) -> Any:
        """What the function returns."""
        # A simulator is never differentiated, so one graph serves callers in every grad mode.
        with contextlib.nullcontext() if self.differentiable else torch.no_grad():
            return self._run(*args)

    def _first(self, *args: Any) -> Any:
        began, (hits, misses) = time.perf_counter(), _lookups()
        try:
            compiler: Any = torch.compile  # its annotations lack isolate_recompiles
            function = compiler(
                self.eager,
                dynamic=False,
                fullgraph=True,
                isolate_recompiles=True,  # else all envs of a process share one limit of 8 graphs
                options=self._options(),
            )
            result = function(*args)
        except (torch._dynamo.exc.FailOnRecompileLimitHit, RuntimeError, OSError) as error:
            if self.mode == "on":
                raise RuntimeError(
                    f"{self.name} does not compile: {_first_line(error)}; {_remedy()}use compile=auto"
                ) from error
            warnings.warn(
                f"{self.name} runs eager, which is slower: {_first_line(error)}; "
                f"{_remedy()}silence this with compile=off",
                stacklevel=2,
            )
            self._run = self.eager
            return self.eager(*args)
        self._run = function
        seconds = time.perf_counter() - began
        found = _lookups()
        kept = found[0] > hits and found[1] == misses
        compilations.append(Compilation(self.name, seconds, kept))
        return result

    def _options(self) -> dict[str, Any]:
        tuning = {**_TUNING, _CACHEABLE: cacheable()}
        return {**_known(tuning), **_GUARDS}


class CompiledEach:
    """function(number, *args), compiled for every number on its own: a graph never looks at one again."""

    def __init__(self, function: Callable[..., Any], mode: str | bool) -> None:
        self._function, self._mode = function, mode
        self._compiled: dict[int, Compiled] = {}

    def __call__(self, number: int, *args: Any) -> Any:
        """What function(number, *args) returns."""
        if number not in self._compiled:
            self._compiled[number] = Compiled(partial(self._function, number), self._mode)
        return self._compiled[number](*args)


class CompiledSample(Compiled):
    """What a policy does at random, of the same random numbers as eager torch."""

    name = "the policy"

    def _options(self) -> dict[str, Any]:
        return {"fallback_random": True, **_known(_PRODUCTS), **_GUARDS}


class CompiledGradients(Compiled):
    """A loss with its backward pass."""

    name = "the gradient step"
    differentiable = True

    def _first(self, *args: Any) -> Any:
        # For good: another size of minibatch is compiled at a later call.
        torch._dynamo.config.trace_autograd_ops = True
        return super()._first(*args)

    def _options(self) -> dict[str, Any]:
        return {**_known(_PRODUCTS), **_GUARDS}


def _lookups() -> tuple[int, int]:
    """How many graphs were found on disk so far, and how many were not; some are never looked for."""
    counts = torch._dynamo.utils.counters["inductor"]
    return counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"]


def _known(options: dict[str, Any]) -> dict[str, Any]:
    known = set(torch._inductor.list_options())
    missing = set(options) - known
    if missing:
        warnings.warn(
            f"this torch does not know {sorted(missing)}; compiling without", stacklevel=5
        )
    return {name: value for name, value in options.items() if name in known}


def _remedy() -> str:
    return "" if shutil.which("g++") else "install g++ to compile it, or "


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
