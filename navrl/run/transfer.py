"""Policies of earlier runs: with the weights of one a new run begins (init=), another is its opponent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from navrl.config.checks import ConfigError, require_flag
from navrl.contracts import Agent
from navrl.storage.checkpoint import load_policy_state
from navrl.storage.find import OUTPUTS, find, is_shipped
from navrl.storage.schema import check_finite

OPPONENT = "opponent.checkpoint"
_NETWORKS = ("policy", "critic")
_NORMALISER = re.compile(r"(^|\.)normalisers\.")
_VARIANCE = re.compile(r"(^|\.)normalisers\.\w+\.variance$")
_LEAST_VARIANCE = 1e-6  # of a feature that has been seen to vary
_MOST_NAMED = 4


class Taken(NamedTuple):
    """The tensors of a network that were taken, and why the others were not."""

    names: list[str]
    left: dict[str, str]


class TrainedPolicy(NamedTuple):
    """The file of a checkpoint, and of its state what describes the policy."""

    path: Path
    state: dict[str, Any]


def read_policy(reference: str) -> TrainedPolicy:
    """Read the policy of `latest`, `best`, a run, a checkpoint or zoo:<name>."""
    path = find(reference, OUTPUTS)
    state = load_policy_state(path)
    networks = {name: state["agent"][name] for name in _NETWORKS if name in state["agent"]}
    return TrainedPolicy(path, {"config": state["config"], "agent": networks})


def resolve_opponent(cfg: DictConfig) -> None:
    """Replace the checkpoint of an opponent by its file: "latest" changes as soon as this run saves."""
    reference = OmegaConf.select(cfg, OPPONENT)
    if reference is None or is_shipped(str(reference)):  # whose path is another on every machine
        return
    with errors_of_policy(OPPONENT, reference):
        cfg.opponent.checkpoint = str(find(str(reference), OUTPUTS))


def read_opponent(cfg: DictConfig) -> TrainedPolicy | None:
    """Read the checkpoint of the opponent that a configuration names; None if it is none."""
    reference = OmegaConf.select(cfg, OPPONENT)
    if reference is None:
        return None
    with errors_of_policy(OPPONENT, reference):
        return read_policy(str(reference))


@contextlib.contextmanager
def errors_of_policy(option: str, reference: str) -> Iterator[None]:
    """Name the option in errors about the checkpoint of a pilot."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ConfigError(f"{option} = {reference}: {error}; change {option}") from error


def initialise(agent: Agent, reference: str, trained: TrainedPolicy, *, normalisers: bool) -> str:
    """Copy the weights of a policy into the agent; return a sentence about what was taken.

    The critic comes along where the checkpoint has one. Optimizer and counters begin anew.
    """
    require_flag("init_normalisers", normalisers)
    path, state = trained.path, trained.state["agent"]
    check_finite(state.get("critic", {}), str(path))
    parts = {
        name: _copy(getattr(agent, name), state[name], normalisers)
        for name in _NETWORKS
        if isinstance(state.get(name), Mapping)
    }
    if not parts["policy"].names:
        raise ConfigError(
            f"init = {reference}: no tensor of {path} has the name and the shape of one of this policy; "
            f"expected a policy for a similar observation and network; change init{_reasons(parts)}"
        )
    counts = [
        f"{len(part.names)} of {len(part.names) + len(part.left)} tensors of the {name}"
        for name, part in parts.items()
    ]
    return f"beginning with {' and '.join(counts)} from {path}{_reasons(parts)}"


@torch.no_grad()
def _copy(network: Any, found: Mapping[str, Tensor], normalisers: bool) -> Taken:
    """Copy every tensor with the name and the shape of one of the network's.

    Features that never varied where the normaliser was made keep a scale of one. Over a deviation of zero any
    other value would be as far off as the normaliser clips.
    """
    taken = Taken([], {})
    for name, own in network.state_dict().items():
        if not normalisers and _NORMALISER.search(name):
            taken.left[name] = "init_normalisers=false"
        elif name not in found:
            taken.left[name] = "absent"
        elif found[name].shape != own.shape or found[name].dtype != own.dtype:
            taken.left[name] = f"{tuple(found[name].shape)} for {tuple(own.shape)}"
        else:
            own.copy_(found[name])  # of the network: a state_dict shares its memory
            if _VARIANCE.search(name):
                own.masked_fill_(own < _LEAST_VARIANCE, 1.0)
            taken.names.append(name)
    return taken


def _reasons(parts: Mapping[str, Taken]) -> str:
    """Return what was left out, and why."""
    left = {
        f"{part} {name}": why for part, taken in parts.items() for name, why in taken.left.items()
    }
    shown = ", ".join(f"{name} ({why})" for name, why in [*left.items()][:_MOST_NAMED])
    more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
    return f"; not taken: {shown}{more}" if left else ""
