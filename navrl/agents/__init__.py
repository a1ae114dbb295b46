"""Agents: what learns from rollouts."""

import importlib
from typing import Any

_MODULES = {
    "HMASD": "navrl.agents.hmasd.agent",
    "NetworkOptions": "navrl.agents.networks.layers",
    "PPO": "navrl.agents.ppo.agent",
    "TeamOptions": "navrl.agents.core.team",
}
__all__ = ["HMASD", "PPO", "NetworkOptions", "TeamOptions"]


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for, so that a simulator can be imported without TorchRL."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
