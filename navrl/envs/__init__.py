"""Worlds: one folder each, with its env, rewards, observations and simulator."""

import importlib
from typing import Any

_MODULES = {
    "AliceAndBobEnv": "navrl.envs.alice_and_bob.env",
    "CombatEnv": "navrl.envs.combat.env",
    "CoverageEnv": "navrl.envs.coverage.env",
    "GymEnv": "navrl.envs.external.gym",
    "NavigationEnv": "navrl.envs.navigation.env",
    "PettingZooEnv": "navrl.envs.external.pettingzoo",
    "SharedReward": "navrl.envs.core.rewards",
    "TorchRLEnv": "navrl.envs.external.torchrl",
    "VmasTeamEnv": "navrl.envs.external.vmas",
    "WeightedReward": "navrl.envs.core.rewards",
}
__all__ = [*_MODULES]  # noqa: PLE0604  (names, as it wants)


def __getattr__(name: str) -> Any:
    """Import a class on first access, so that simulators can be imported without TorchRL."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
