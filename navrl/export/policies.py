"""A trained policy as a function of plain tensors: all that lies between an observation and its action.

Encoders, normalisers, masks and memory are inside. Inputs are the leaves of an observation, what the policy
remembers, and uniform numbers where its actions are drawn; the axis of simulations comes first.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torchrl.data import MultiCategorical, TensorSpec

from navrl.agents.core.team import GROUP, action_of
from navrl.agents.hmasd.high_level import UniformSkills
from navrl.agents.hmasd.policy import HierarchicalPolicy
from navrl.agents.networks.distributions import ActionDistribution
from navrl.config.checks import ConfigError
from navrl.contracts import Env

OBSERVATIONS = 1000  # that a file is checked with
TOLERANCE = 1e-5  # of every number, relative to numbers above 1
NOISE, ACTION, DISTRIBUTION, NEXT = "noise", "action", "distribution", "next_"
_BELOW_ONE = 1.0 - 2.0**-24  # the largest uniform number
_RESERVED = (NOISE, ACTION, DISTRIBUTION)
Columns = dict[str, Tensor]


class Exportable(Protocol):
    """A policy that can leave: it gives the distribution of its actions."""

    in_keys: list[Any]
    out_keys: list[Any]

    def distribution(
        self, tensordict: TensorDictBase, /, *, deterministic: bool
    ) -> ActionDistribution:
        """Return the distribution of the actions; write the memory after the step under "next"."""


class PolicyGraph(nn.Module):
    """A policy from named tensors (N, ...) to named tensors; `inputs` and `memory` are keys by name."""

    def __init__(self, policy: Any, env: Env, *, sampled: bool) -> None:
        super().__init__()
        _require_exportable(policy, sampled)
        self.policy: Exportable = policy
        self.sampled = sampled
        group = env.observation_spec.get(GROUP, None)
        self.group = None if group is None else group.shape[1:]
        self.action_key = _path(env.action_key)
        self.action_spec = action_of(env.action_spec, None if group is None else GROUP)
        keys = [_path(key) for key in policy.in_keys]
        self.inputs = {_name(key): key for key in keys}
        states = [key[1:] for key in map(_path, policy.out_keys) if key[0] == "next"]
        self.memory = {_name(key): key for key in states}
        if len({*self.inputs, *self.memory}) < len(keys) + len(states):
            raise ConfigError(
                f"the policy reads {keys} and remembers {states}, which do not have different names; "
                "expected different ones; rename a leaf of the observation"
            )

    def forward(self, columns: Columns) -> Columns:
        """Return action, the numbers of its distribution, and the memory after the step."""
        frame = self.frame(columns)
        dist = self.policy.distribution(frame, deterministic=not self.sampled)
        action = dist.icdf(columns[NOISE]) if self.sampled else dist.deterministic_sample
        after = {f"{NEXT}{name}": frame.get(("next", *key)) for name, key in self.memory.items()}
        return {ACTION: action, DISTRIBUTION: dist.parameters, **after}

    def frame(self, columns: Mapping[str, Tensor]) -> TensorDict:
        """Return the columns as the policy reads them."""
        size = next(iter(columns.values())).shape[0]
        frame = TensorDict({}, batch_size=[size])
        for name, key in {**self.inputs, **self.memory}.items():
            frame.set(key, columns[name])
        if self.group is not None:
            frame.get(GROUP).batch_size = [size, *self.group]
        return frame


def _require_exportable(policy: Any, sampled: bool) -> None:
    """Raise ConfigError about a policy that cannot leave, or not with actions that are drawn."""
    if not hasattr(policy, "distribution"):
        raise ConfigError(
            f"the policy is a {type(policy).__name__}, which has no distribution(tensordict); expected that "
            "of an agent of navrl; add the method, or choose another policy"
        )
    if not isinstance(policy, HierarchicalPolicy):
        return
    if isinstance(policy.coordinator, UniformSkills):
        raise ConfigError(
            "agent.ablation = no_high draws its skills by chance; expected skills that a policy chooses; "
            "choose another policy"
        )
    if sampled:
        raise ConfigError(
            "--sampled is not for policies with skills (agent=hmasd); expected their most probable skills "
            "and actions; leave --sampled out"
        )


def _path(key: Any) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _name(key: tuple[str, ...]) -> str:
    """Return the name of an input: that of a leaf, without the groups that every leaf is in."""
    name = "_".join(part for part in key if part not in (GROUP, "observation"))
    return f"observation_{name}" if name in _RESERVED or name.startswith(NEXT) else name


# ---- what the policy has seen and done -----------------------------------------------------------


class Recording:
    """A policy that keeps a random sample of what it reads, and of what it makes of it."""

    def __init__(self, policy: Any, graph: PolicyGraph, seed: int) -> None:
        self._policy, self._graph = policy, graph
        self._orders = torch.Generator().manual_seed(seed)
        self._kept: Any = None
        self.seen = 0  # observations

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Act as the policy does."""
        graph = self._graph
        keys = {**graph.inputs, **graph.memory}
        before = {name: tensordict.get(key, None) for name, key in keys.items()}
        found = self._policy(tensordict)
        after = {f"{NEXT}{name}": found.get(("next", *key)) for name, key in graph.memory.items()}
        for name in graph.memory:  # at the beginning there is none
            before[name] = (
                torch.zeros_like(after[f"{NEXT}{name}"]) if before[name] is None else before[name]
            )
        self._keep({**before, ACTION: found.get(graph.action_key), **after})
        return found

    def _keep(self, columns: Columns) -> None:
        """Keep the rows with the largest random numbers, which are a fair sample of all rows."""
        (size,) = {len(column) for column in columns.values()}
        rows = TensorDict({name: column.cpu().clone() for name, column in columns.items()}, [size])
        self.seen += size
        rows.set("order", torch.rand(size, generator=self._orders))
        kept: Any = rows if self._kept is None else torch.cat([self._kept, rows])
        self._kept = kept[kept.get("order").topk(min(OBSERVATIONS, len(kept))).indices]

    def columns(self) -> tuple[Columns, Columns]:
        """Return inputs and outputs of the sample; noise is drawn, where the graph reads it."""
        if self._kept is None:
            raise RuntimeError("the policy has not acted; play before columns()")
        graph = self._graph
        rows: TensorDict = self._kept
        inputs = {name: rows.get(name) for name in (*graph.inputs, *graph.memory)}
        if graph.sampled:
            shape = (len(rows), *graph.action_spec.shape[1:])
            inputs[NOISE] = torch.rand(shape, generator=self._orders)
        names = [*([] if graph.sampled else [ACTION]), *(f"{NEXT}{name}" for name in graph.memory)]
        return inputs, {name: rows.get(name) for name in names}


# ---- the graph that leaves, and its check --------------------------------------------------------


class Program(NamedTuple):
    """A graph of torch.export, from a dict of inputs to a dict of outputs, with their names in order."""

    graph: ExportedProgram
    inputs: list[str]
    outputs: list[str]


def exported(graph: PolicyGraph, inputs: Columns) -> Program:
    """Return the policy as a program for any number of simulations; it needs torch, and nothing of navrl."""
    shapes = {name: {0: Dim.DYNAMIC} for name in inputs}
    with torch.no_grad():
        program = torch.export.export(graph, (inputs,), dynamic_shapes={"columns": shapes})
        outputs = [*graph(inputs)]
    for node in program.graph.nodes:  # where this machine keeps its files is nobody's business
        node.meta.pop("stack_trace", None)
    return Program(program, [*inputs], outputs)


class Check(NamedTuple):
    """The largest differences between an exported policy and ours, by output."""

    observations: int
    largest: dict[str, float]
    ties: int  # rows with another choice that is as good as ours

    @property
    def passed(self) -> bool:
        """Return whether every difference is within TOLERANCE."""
        return all(value <= TOLERANCE for value in self.largest.values())


@torch.no_grad()
def check(graph: PolicyGraph, inputs: Columns, played: Columns, found: Mapping[str, Any]) -> Check:
    """Compare what an exported policy has `found` with what ours finds, and found when it played."""
    own = {**graph(inputs), **played}
    apart = {name: difference(torch.as_tensor(found[name]), own[name]) for name in own}
    columns = apart[ACTION]
    rows = columns.amax(-1)
    ties = torch.zeros_like(rows, dtype=torch.bool)
    if columns.isfinite().all():
        as_good = _as_good(graph, inputs, torch.as_tensor(found[ACTION]), own[ACTION])
        ties = (rows > TOLERANCE) & as_good
    apart[ACTION] = torch.where(ties, 0.0, rows)
    largest = {name: float(value.max()) for name, value in apart.items()}
    return Check(len(rows), largest, int(ties.sum()))


def difference(found: Tensor, own: Tensor) -> Tensor:
    """Return how far numbers are apart, relative to those above 1; infinite where one is none."""
    if found.shape != own.shape or found.dtype != own.dtype:
        return torch.full(own.shape, torch.inf)
    apart = (found.double() - own.double()).abs() / own.double().abs().clamp_min(1.0)
    return torch.where(apart.isnan(), torch.inf, apart)


def _as_good(graph: PolicyGraph, inputs: Columns, found: Tensor, own: Tensor) -> Tensor:
    """Return where other actions are those of our policy, up to the rounding of probabilities.

    A drawn action may be that of a noise next to the given one, another choice one of the same probability.
    """
    dist = graph.policy.distribution(graph.frame(inputs), deterministic=not graph.sampled)
    if graph.sampled:
        low, high = (
            dist.icdf((inputs[NOISE] + shift).clamp(0.0, _BELOW_ONE))
            for shift in (-TOLERANCE, TOLERANCE)
        )
        return ((found >= low - TOLERANCE) & (found <= high + TOLERANCE)).all(-1)
    low, high = action_bounds(graph.action_spec)
    possible = ((found >= low) & (found <= high)).all(-1)
    chosen = torch.where(_choices(graph.action_spec), found, own)
    steered = (difference(found, chosen) <= TOLERANCE).all(-1)  # bounded columns have no ties
    return possible & steered & ((dist.log_prob(chosen) - dist.log_prob(own)).abs() <= TOLERANCE)


def _choices(spec: TensorSpec) -> Tensor:
    """Return which columns of an action are choices."""
    columns = torch.arange(spec.shape[-1])
    if isinstance(spec, MultiCategorical):
        return columns >= 0
    return columns >= spec.shape[-1] - getattr(spec, "num_binary", 0)


def action_bounds(spec: TensorSpec) -> tuple[Tensor, Tensor]:
    """Return the least and the largest value of every column of an action."""
    if isinstance(spec, MultiCategorical):
        most = spec.nvec.reshape(-1, spec.shape[-1])[0] - 1
        return torch.zeros_like(most), most
    low, high = (bound.reshape(-1, spec.shape[-1])[0] for bound in (spec.low, spec.high))
    return low, high
