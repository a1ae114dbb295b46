"""navrl trains policies inside thousands of batched simulations.

navrl.train(...)      train a policy, as the command of that name; return what came of it
navrl.evaluate(...)   measure a policy
navrl.load(...)       a trained policy that acts on plain arrays
navrl.make(...)       an env, for TorchRL
navrl.Run(...)        what a run has written: configuration, metrics, checkpoints
"""

import importlib
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from navrl.config.compile_cache import use_private_cache

if TYPE_CHECKING:
    from navrl.api.policies import Policy, load
    from navrl.api.runs import Run
    from navrl.api.training import Result, evaluate, make, train

__all__ = ["Policy", "Result", "Run", "evaluate", "load", "make", "train"]

try:
    __version__ = version("navrl")
except PackageNotFoundError:  # a checkout that nobody installed
    __version__ = "0.2.0+source"

use_private_cache()  # before torch is imported

_PLACES = {
    "Policy": "policies",
    "load": "policies",
    "Run": "runs",
    "Result": "training",
    "make": "training",
}


class Command(ModuleType):
    """A module that is a command and can be called as well: navrl.train("env=combat")."""

    def __call__(self, *words: Any, **options: Any) -> Any:
        """Run the command and return what came of it."""
        name = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module("navrl.api.training"), name)(*words, **options)


def __getattr__(name: str) -> Any:
    """Import on first use: torch alone takes seconds."""
    if name in ("evaluate", "train"):
        return importlib.import_module(f"navrl.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'navrl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"navrl.api.{_PLACES[name]}"), name)
