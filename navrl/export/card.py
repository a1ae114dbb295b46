"""The card of an exported policy: JSON that says how to feed it, what it answers, and where it comes from."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from navrl.contracts import Env
from navrl.export.formats import BATCH
from navrl.export.policies import (
    ACTION,
    DISTRIBUTION,
    NEXT,
    NOISE,
    Check,
    Columns,
    PolicyGraph,
    action_bounds,
)

KIND = "navrl policy card 1"
_MASK, _ALIVE = "action_mask", "alive"
_MEANINGS = {
    _MASK: "true where a choice is allowed: the columns of all choices side by side",
    _ALIVE: "true where the agent is in the game",
    "state": "the state of the whole team, for the choice of skills",
    NOISE: "uniform random numbers, new ones for every decision; each column of the action is the quantile "
    "of its distribution at its number",
    ACTION: "what the env receives",
    DISTRIBUTION: "what the action is chosen from: log-probabilities of choices; alpha and beta of bounded "
    "columns, whose action is their mean over the interval unless it is drawn",
}


def describe(graph: PolicyGraph, env: Env, inputs: Columns) -> dict[str, Any]:
    """Return what must be known to use the graph: inputs and outputs in order, and the team."""
    rows = {name: column[:2] for name, column in inputs.items()}
    with torch.no_grad():
        outputs = graph(rows)
    team = None if graph.group is None else {"agents": graph.group[0], "axis": 1}
    return {
        "inputs": [_input(graph, env, name, column) for name, column in rows.items()],
        "outputs": [_output(graph, env, name, column) for name, column in outputs.items()],
        "memory": {name: f"{NEXT}{name}" for name in graph.memory},
        "team": team,
        "drawn": graph.sampled,
    }


def _port(name: str, column: Tensor, meaning: str) -> dict[str, Any]:
    dtype = str(column.dtype).removeprefix("torch.")
    return {"name": name, "shape": [BATCH, *column.shape[1:]], "dtype": dtype, "meaning": meaning}


def _input(graph: PolicyGraph, env: Env, name: str, column: Tensor) -> dict[str, Any]:
    if name in graph.memory:
        meaning = f"zeros where an episode begins, else {NEXT}{name} of the decision before"
    elif name.endswith("_mask") and name != _MASK:
        meaning = f"true where a row of {name.removesuffix('_mask')} is there"
    else:
        meaning = _MEANINGS.get(name, "a leaf of the observation")
    port = _port(name, column, meaning)
    leaf = graph.inputs[name][-1] if name in graph.inputs else name
    names = env.column_names.get(leaf, ())
    return port | ({"columns": [*map(_column, count(), names)]} if names else {})


def _column(index: int, text: str) -> dict[str, Any]:
    """Return place, name and unit of a column that is called "speed [400 m/s]"."""
    name, _, unit = text.removesuffix("]").partition(" [")
    return {"index": index, "name": name, "unit": unit or None}


def _output(graph: PolicyGraph, env: Env, name: str, column: Tensor) -> dict[str, Any]:
    if name.startswith(NEXT):
        return _port(name, column, f"{name.removeprefix(NEXT)} for the next decision")
    port = _port(name, column, _MEANINGS[name])
    if name == ACTION:
        low, high = (bound.tolist() for bound in action_bounds(graph.action_spec))
        names = env.column_names.get(ACTION) or [f"column {place}" for place in range(len(low))]
        rows = zip(map(_column, count(), names), low, high, strict=True)
        port["columns"] = [{**named, "low": least, "high": most} for named, least, most in rows]
    return port


def checked(found: Check, tolerance: float) -> Mapping[str, Any]:
    """Return the result of the comparison with our policy."""
    return {
        "observations": found.observations,
        "largest_difference": found.largest,
        "tolerance": tolerance,
        "equally_probable_choices": found.ties,
    }
