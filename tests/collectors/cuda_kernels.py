"""Counts what a GPU does in one training iteration: kernels after fusion, bytes and products, without a GPU.

What is eager is counted while an iteration runs on fake CUDA tensors: one kernel for an operator that
computes, none for a view. What is compiled is counted by Inductor's own scheduler: the graph is traced on the
CPU, because no backward pass runs on fake CUDA, its tensors are moved to a fake RTX 4090, and lowering stops
where code of Triton would be written. Every kernel takes the longest of a launch, its bytes and its products.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._inductor import compile_fx, graph, scheduler, utils
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.runtime.hints import DeviceProperties
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry
from torchrl.data import MultiCategorical

from navrl.agents.fast import products
from navrl.agents.networks.heads import action_choices
from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build, compose
from navrl.envs.core.compiling import Compiled
from tests.collectors.cuda_audit import DEVICE, Audit, audit
from tests.collectors.cuda_iteration import build_agent

# RTX 4090: a launch, its memory, and float32 without tensor cores.
LAUNCH_S, BYTES_PER_S, FLOPS_PER_S = 3e-6, 1008e9, 82.6e12
OPTIONS = ("compile=on", "agent.network.precision=fp32")  # asking for bf16 needs a driver
_RTX_4090 = DeviceProperties(
    type="cuda",
    index=0,
    multi_processor_count=128,
    cc=89,
    major=8,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=1536,
    warp_size=32,
)
_MAKES_NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "_local_scalar_dense"}


class Work(NamedTuple):
    """The work of some kernels."""

    kernels: int = 0
    bytes: int = 0
    flops: int = 0
    seconds: float = 0.0

    def plus(self, moved: int, flops: int) -> "Work":
        """Return the work with one more kernel."""
        seconds = max(LAUNCH_S, moved / BYTES_PER_S, flops / FLOPS_PER_S)
        return Work(
            self.kernels + 1, self.bytes + moved, self.flops + flops, self.seconds + seconds
        )


class _CountedError(BaseException):
    """Ends a compilation, through all that catches errors, with the kernels that it would have made."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.work = work


# ---- compiled functions ----------------------------------------------------------------------------


def _stop(lowered: Any) -> None:
    lowered.init_wrapper_code()
    lowered._update_scheduler()
    work = Work()
    for node in lowered.scheduler.nodes:
        if not isinstance(node, scheduler.NopKernelSchedulerNode):
            work = work.plus(node.get_read_write_buffers_sizes(), int(node.estimate_flops() or 0))
    raise _CountedError(work)


def _moved(compiler: Any, module: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    """Lower the graph as if it had been traced on the GPU."""
    device = torch.device(DEVICE)
    for node in module.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": device}
    with next(each.fake_mode for each in inputs if hasattr(each, "fake_mode")):
        inputs = [
            torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=device)
            if isinstance(each, torch.Tensor)
            else each
            for each in inputs
        ]
    return _lower(compiler, module, inputs, *args, **options)


_lower = compile_fx._InProcessFxCompile.codegen_and_compile


@contextmanager
def lowering_for_cuda() -> Iterator[None]:
    """Let Inductor lower graphs of the CPU for an RTX 4090, up to its kernels."""
    with (
        mock.patch.object(graph.GraphLowering, "codegen", _stop),
        mock.patch.object(compile_fx._InProcessFxCompile, "codegen_and_compile", _moved),
        mock.patch.object(
            scheduler.Scheduler, "create_backend", lambda self, _: TritonScheduling(self)
        ),
        mock.patch.object(DeviceProperties, "create", return_value=_RTX_4090),
        mock.patch.object(utils, "is_big_gpu", return_value=False),  # no templates of Triton
        mock.patch.object(products, "BY_ONEDNN", False),
        torch._dynamo.config.patch(trace_autograd_ops=True),
        torch.compiler.config.patch(force_disable_caches=True),
    ):
        yield


def kernels_of(function: Compiled, args: tuple[Any, ...]) -> Work:
    """Return the kernels of one call; without a graph break, or torch raises."""
    options = {**function._options(), "joint_graph_constant_folding": False}
    try:
        with torch.set_grad_enabled(function.differentiable):
            torch.compile(function.eager, dynamic=False, fullgraph=True, options=options)(*args)
    except _CountedError as counted:
        return counted.work
    raise AssertionError(f"{function.name} was compiled without Inductor")


def _call(function: Compiled, args: tuple[Any, ...]) -> str:
    """Return what tells apart the graphs of a function."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    return f"{function.name} {[tuple(each.shape) for each in tensors]}"


def compiled_work(overrides: list[str]) -> dict[str, Work]:
    """Return the kernels of every compiled function, from an iteration on the CPU."""
    cfg, found = compose("train", [*OPTIONS, *overrides]), {}

    def counted(function: Compiled, *args: Any) -> Any:
        key = _call(function, args)
        if key not in found:
            found[key] = kernels_of(function, args)
        return function.eager(*args)

    with mock.patch.object(Compiled, "__call__", counted), lowering_for_cuda():
        env, agent = _training(cfg, "cpu")
        agent.update(next(_rollouts(cfg, env, agent)))
    return found


def _training(cfg: Any, device: str, choices: Any = None) -> tuple[Any, Any]:
    env = build(cfg.env)(num_envs=cfg.num_envs, device=device, seed=0)
    options = {"observation_spec": env.observation_spec, "action_spec": env.action_spec}
    if device == "cpu":
        agent = build(cfg.agent)(**options, device=device, num_iterations=10)
    else:
        agent = build_agent(cfg, choices, env)
    return env, agent


def _rollouts(cfg: Any, env: Any, agent: Any) -> Iterator[Any]:
    steps, policy = cfg.rollout_steps, agent.policy
    return iter(SyncCollector(env=env, policy=policy, rollout_steps=steps, total_frames=10**9))


# ---- eager operators -------------------------------------------------------------------------------


class Operators(Audit):
    """An audit that counts the eager operators too, and the calls of compiled functions."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.calls, self._compiled = Work(), {}, False
        self._results: dict[str, Any] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(func, types, args, kwargs)
        name = func.overloadpacket.__name__
        if not self._compiled and not func.is_view and name not in _MAKES_NOTHING:
            tensors = pytree.tree_leaves((args, kwargs, result))
            moved = sum(x.nbytes for x in tensors if isinstance(x, torch.Tensor))
            flops = flop_registry.get(func.overloadpacket)
            made = flops(*args, **(kwargs or {}), out_val=result) if flops else 0
            self.work = self.work.plus(moved, made)
        return result

    def clear(self) -> None:
        """Forget what was seen so far."""
        super().clear()
        self.work, self.calls = Work(), {}

    def found(self) -> dict[str, Any]:
        """Return what was seen since clear()."""
        return {"eager": self.work, "calls": self.calls, "reads": len(self.events)}

    def call(self, function: Compiled, args: tuple[Any, ...]) -> Any:
        """Count the call instead of its operators."""
        key = _call(function, args)
        self.calls[key] = self.calls.get(key, 0) + 1
        self._compiled = True
        try:
            if key not in self._results:  # an eager step of a simulator has thousands of operators
                self._results[key] = function.eager(*args)
            return pytree.tree_map_only(torch.Tensor, torch.empty_like, self._results[key])
        finally:
            self._compiled = False


def iteration(overrides: list[str]) -> dict[str, Any]:
    """Return the work of the parts of one iteration, its host reads, and its calls of compiled functions."""
    compiled = compiled_work(overrides)
    cfg = compose("train", [*OPTIONS, *overrides])
    real = build(cfg.env)(num_envs=1, device="cpu", seed=0)
    spec = real.full_action_spec[real.action_key]
    choices = action_choices(spec) if isinstance(spec, MultiCategorical) else []
    parameters: list[torch.Tensor] = []
    with (
        mock.patch("tests.collectors.cuda_audit.Audit", Operators),
        audit(parameters) as seen,
        mock.patch.object(Compiled, "__call__", lambda function, *args: seen.call(function, args)),
    ):
        env, agent = _training(cfg, DEVICE, choices)
        parameters.extend(agent.parameters)
        seen.truth = False  # nobody is done right after a reset
        rollouts = _rollouts(cfg, env, agent)
        agent.update(next(rollouts))
        seen.clear()
        rollout = next(rollouts)
        collection = seen.found()
        seen.clear()
        agent.update(rollout)
        update = seen.found()
    return {
        "frames": cfg.num_envs * cfg.rollout_steps,
        "graphs": {key: work._asdict() for key, work in compiled.items()},
        "collection": _whole(collection, compiled),
        "update": _whole(update, compiled),
    }


def _whole(part: dict[str, Any], compiled: dict[str, Work]) -> dict[str, Any]:
    """Return the sums over eager operators and compiled calls."""
    rows = [(part["eager"], 1), *((compiled[key], times) for key, times in part["calls"].items())]
    names = Work._fields
    sums = {name: sum(getattr(work, name) * times for work, times in rows) for name in names}
    return {**sums, "eager": part["eager"].kernels, "reads": part["reads"]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(iteration(sys.argv[1:])) + "\n")
