"""torch.compile with a fallback: a function that does not compile runs eager, after one warning."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from navrl.config.checks import require_choice

# Settings for simulator steps. Without the first four, Inductor splits a decision into dozens of small loops
# and is four times slower. The next six shorten compilation: a value that several others need is computed
# once instead of in each of them (it stays in registers all the same), few pairs of loops are considered for
# fusion, and no tail is vectorised.
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

# A graph that calls a function which torch does not know or trust is compiled anew in every process, which
# takes ten times as long, unless the function is named here with a version that changes when it changes.
_CACHEABLE = "unsafe_marked_cacheable_functions"
_AUTOCAST = {
    f"torch.amp.autocast_mode.{name}": str(torch.__version__)
    for name in ("_enter_autocast", "_exit_autocast")
}

# Settings for networks. Matrix products need Inductor's own settings, except for the tiling heuristics: with
# them it would not vectorise code that reads columns of rows, such as the logits of one choice.
_PRODUCTS = {
    "cpp.enable_tiling_heuristics": False,
    "size_asserts": False,  # small networks are a matter of microseconds
    "alignment_asserts": False,
    _CACHEABLE: _AUTOCAST,
}

# A step reads nothing but tensors that ever changes; guards on the rest cost more than the call itself.
_GUARDS: dict[str, Any] = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}

_LEAST_ROWS = 2  # a graph for any number of rows cannot be traced with fewer

COMPILE_MODES = ("auto", "on", "off")
_YAML_MODES = {True: "on", False: "off"}  # YAML reads a bare on or off as a truth value


class Compilation(NamedTuple):
    """The duration of a first call."""

    name: str
    seconds: float
    cached: bool  # an earlier process had left the compiled graph on disk
    iteration: float = math.inf  # of the training in which it was


compilations: list[Compilation] = []  # of this process


EAGER_ITERATIONS = 2  # at the beginning of a training

# Of the training of this process; without one everything compiles at its first call.
_iteration = [math.inf]


@contextlib.contextmanager
def eager_at_first(done: int) -> Iterator[None]:
    """Run the first iterations of a training eager while open, of which so many are done.

    Compiling takes most of a minute, and an eager iteration a second. The number of the iteration decides,
    not the time, because the last bits differ: the same seed remains the same run.
    """
    _iteration[0] = done + 1
    try:
        yield
    finally:
        _iteration[0] = math.inf


def next_iteration() -> None:
    """Count an iteration of the training."""
    _iteration[0] += 1


class Compiled:
    """A simulator step that is compiled at its first call, in a training after its eager iterations."""

    name = "the simulator step"
    differentiable = False

    def __init__(
        self, function: Callable[..., Any], mode: str | bool, *, any_rows: bool = False
    ) -> None:
        """Compile one graph for each size, or with `any_rows` one for any number of rows.

        Then all arguments have these rows as their first axis.
        """
        mode = _YAML_MODES[mode] if isinstance(mode, bool) else mode
        require_choice("compile", mode, COMPILE_MODES)
        self.eager = function
        self.mode, self._any_rows = mode, any_rows
        self._run = function if mode == "off" else self._first

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Return an uncompiled copy: the graph of a method holds the tensors of its own object."""
        return type(self)(copy.deepcopy(self.eager, memo), self.mode, any_rows=self._any_rows)

    def __call__(self, *args: Any) -> Any:
        """Call the function, compiled if possible."""
        # A simulator is never differentiated, so one graph serves callers in every grad mode.
        with contextlib.nullcontext() if self.differentiable else torch.no_grad():
            return self._run(*args)

    def _first(self, *args: Any) -> Any:
        if _iteration[0] <= EAGER_ITERATIONS:
            return self.eager(*args)
        if self._any_rows:
            if args[0].shape[0] < _LEAST_ROWS:
                return self.eager(*args)
            args = tuple(arg.view_as(arg) for arg in args)  # a mark is kept by the tensor
            for arg in args:
                torch._dynamo.mark_dynamic(arg, 0)
        began, (hits, misses) = time.perf_counter(), _lookups()
        _keep_together()
        try:
            compiler: Any = torch.compile  # its annotations lack isolate_recompiles
            function = compiler(
                self.eager,
                dynamic=None if self._any_rows else False,  # None: what is marked
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
        cached = found[0] > hits and found[1] == misses
        compilations.append(Compilation(self.name, seconds, cached, _iteration[0]))
        return result

    def _options(self) -> dict[str, Any]:
        masks = {"post_grad_custom_post_pass": _masks_where_used()}
        return {**_TUNING, **masks, _CACHEABLE: cacheable(), **_GUARDS}


class CompiledEach:
    """A function(number, *args) that is compiled separately for every number, as a constant of its graph."""

    def __init__(self, function: Callable[..., Any], mode: str | bool) -> None:
        self._function, self._mode = function, mode
        self._compiled: dict[int, Compiled] = {}

    def __call__(self, number: int, *args: Any) -> Any:
        """Return function(number, *args)."""
        if number not in self._compiled:
            self._compiled[number] = Compiled(partial(self._function, number), self._mode)
        return self._compiled[number](*args)


class CompiledSample(Compiled):
    """A policy that samples, with the same random numbers as eager torch."""

    name = "the policy"

    def _options(self) -> dict[str, Any]:
        return {"fallback_random": True, **_PRODUCTS, **_GUARDS}


class CompiledGradients(Compiled):
    """A loss with its backward pass, compiled together."""

    name = "the gradient step"
    differentiable = True

    def _first(self, *args: Any) -> Any:
        # Set for good, because another minibatch size is compiled at a later call.
        torch._dynamo.config.trace_autograd_ops = True
        return super()._first(*args)

    def _options(self) -> dict[str, Any]:
        return {**_PRODUCTS, **_GUARDS}


@functools.cache
def _masks_where_used() -> Any:
    """Return a pass of Inductor that computes a mask of a CPU again at each of its uses.

    A mask with several uses would be stored, and a vector of them is stored one by one: of navigation's
    decision that was half. Where the uses lie in one loop, the compiler computes it once all the same.
    A GPU stores masks well.
    """
    # Not at the top: a simulator that is not compiled needs no compiler, which takes a second to import.
    from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

    class MasksWhereUsed(CustomGraphPass):
        def __call__(self, graph: torch.fx.Graph) -> None:
            masks = [node for node in reversed(list(graph.nodes)) if _is_mask(node)]
            uses: dict[torch.fx.Node, int] = {}
            for node in masks:  # a mask that masks are made of is computed for each of theirs
                uses[node] = sum(uses.get(user, 1) for user in node.users)
            if sum(uses.values()) > len(graph.nodes):
                return  # in air combat masks depend on those of the tick before: copies of copies
            for node in masks:
                for user in [user for user in node.users if user.op != "output"][1:]:
                    with graph.inserting_before(user):
                        user.replace_input_with(node, graph.node_copy(node))

        def uuid(self) -> Any:
            return get_hash_for_files((__file__,))

    return MasksWhereUsed()


def _is_mask(node: torch.fx.Node) -> bool:
    """Return whether a node of a graph computes one boolean for each number of a CPU."""
    found = node.meta.get("val")
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not (pointwise and isinstance(found, torch.Tensor)):
        return False
    return found.dtype == torch.bool and found.device.type == "cpu"  # a GPU stores them well


@functools.cache
def _keep_together() -> None:
    """Let everything that torch's compiler keeps lie in the folder that `navrl.config.compile_cache` sets.

    Precompiled headers and choices of padding lie in torch's default folder, whatever folder is set.
    """
    # Not at the top, as above.
    from torch._inductor.runtime import cache_dir_utils, runtime_utils

    modules: tuple[Any, ...] = (cache_dir_utils, runtime_utils)
    for module in modules:
        module.default_cache_dir = module.cache_dir


def _lookups() -> tuple[int, int]:
    """Return the hits and misses of the graph cache on disk so far; some graphs are never looked up."""
    counts = torch._dynamo.utils.counters["inductor"]
    return counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"]


def _remedy() -> str:
    return "" if shutil.which("g++") else "install g++ to compile it, or "


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# ---- functions that stay one node of a graph -----------------------------------------------------

_nodes: list[str] = []  # names of all functions and classes that `one_node` was given


def one_node(function: Callable[..., Any], *classes: type) -> Callable[..., Any]:
    """Return the function as one node of every graph that calls it: its Python is traced only once.

    Its arguments and results are tensors, numbers and NamedTuples of these classes. torch stores no
    graph on disk that calls an unknown function, so the names are recorded for `cacheable`.
    """
    named: tuple[Any, ...] = (function, *classes)
    _nodes.extend(f"{item.__module__}.{item.__qualname__}" for item in named)
    allow: Any = torch.compiler.allow_in_graph  # it is not annotated
    result: Callable[..., Any] = allow(function)
    return result


def cacheable() -> dict[str, str]:
    """Return the names that graphs on disk may call, each with a hash of the source it depends on."""
    return dict.fromkeys(_nodes, _simulator_hash())


@functools.cache
def _simulator_hash() -> str:
    """Hash the source of all simulators; they import nothing else but torch."""
    envs = Path(__file__).parents[1]
    files = sorted(
        file for file in envs.rglob("*.py") if {"core", "sim"} & {*file.parts, file.stem}
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
