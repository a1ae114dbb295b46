"""Learning algorithms, and the options of their groups in conf/agent."""

import importlib
from typing import Any

_MODULES = {
    "ActorCriticOptions": "navrl.agents.networks.actor_critic",
    "Correction": "navrl.agents.ppo.lag",
    "HMASD": "navrl.agents.hmasd.agent",
    "LossOptions": "navrl.agents.ppo.update",
    "NetworkOptions": "navrl.agents.networks.layers",
    "OptimizerOptions": "navrl.agents.ppo.agent",
    "PPO": "navrl.agents.ppo.agent",
    "TeamOptions": "navrl.agents.core.team",
}
__all__ = [
    "HMASD",
    "PPO",
    "ActorCriticOptions",
    "Correction",
    "LossOptions",
    "NetworkOptions",
    "OptimizerOptions",
    "TeamOptions",
]


def __getattr__(name: str) -> Any:
    """Import a class at its first use, so that a simulator can be imported without TorchRL."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
