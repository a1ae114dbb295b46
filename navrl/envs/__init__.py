"""TorchRL skins over the simulators."""

import importlib
from typing import Any

_MODULES = {
    "AliceAndBobEnv": "navrl.envs.alice_and_bob.env",
    "CombatEnv": "navrl.envs.combat.env",
    "CoverageEnv": "navrl.envs.coverage.env",
    "NavigationEnv": "navrl.envs.navigation.env",
    "SharedReward": "navrl.envs.core.rewards",
    "VmasTeamEnv": "navrl.envs.external.vmas",
    "WeightedReward": "navrl.envs.core.rewards",
}
__all__ = [
    "AliceAndBobEnv",
    "CombatEnv",
    "CoverageEnv",
    "NavigationEnv",
    "SharedReward",
    "VmasTeamEnv",
    "WeightedReward",
]


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for, so that a simulator can be imported without TorchRL."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
