"""Collection by several ranks: each collects the rollouts of its own envs, and yields those of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.contracts import Collector
from navrl.ranks import Ranks

_WORLD = "world"  # in the state of an env


class GatheredCollector:
    """A collector of (N, T) frames of the envs of all ranks, around the collector of this rank's own."""

    def __init__(self, own: Collector, ranks: Ranks) -> None:
        if getattr(own, "elsewhere", False):
            raise ConfigError(
                f"collector=ray with {ranks.size} ranks; expected one of them: its processes collect beside "
                "a single learner; change collector or ranks"
            )
        self._own, self._ranks, self.lag = own, ranks, own.lag
        self._gathering_s = 0.0

    def __iter__(self) -> Iterator[TensorDictBase]:
        """Yield rollouts of all envs, in the order of their ids."""
        for rollout in self._own:
            began = time.perf_counter()
            whole = self._ranks.gather_rollout(rollout)
            self._gathering_s += time.perf_counter() - began
            yield whole

    def ahead(self) -> AbstractContextManager[None]:
        """Collect the next rollout of the own envs while the context is open, where the collector can."""
        return self._own.ahead()

    def metrics(self) -> dict[str, float]:
        """Return the costs of collecting the own envs, and the seconds until those of all were here."""
        seconds, self._gathering_s = self._gathering_s, 0.0
        return {**self._own.metrics(), "time/gather": seconds}

    def runtime_state(self) -> dict[str, Any]:
        """Return what a collector of all envs would return."""
        return _each(self._own.runtime_state(), lambda rows: self._ranks.all_gather(rows, 0))

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore the part of the own envs."""
        self._own.load_runtime_state(_each(runtime, lambda rows: self._ranks.chunk(rows, 0)))

    def shutdown(self) -> None:
        """Stop threads and close the env."""
        self._own.shutdown()


def _each(state: Mapping[str, Any], function: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Return the nested state with what the function makes of every tensor, in one order on all ranks."""
    found: dict[str, Any] = {}
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Mapping):
            found[name] = _each(value, function)
        else:
            found[name] = function(value) if isinstance(value, Tensor) else value
    return found


def whole_state(state: Mapping[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Return the state that an env of all ranks' envs would return; worlds from elsewhere have none."""
    return {
        name: [ranks.all_gather(rows, -1) for rows in value] if name == _WORLD else value
        for name, value in state.items()
    }


def own_state(state: Mapping[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Return this rank's part of what `whole_state` returned, which somebody else may have written."""
    world = state.get(_WORLD)
    if ranks.size == 1 or not isinstance(world, list):
        return dict(state)
    return {**state, _WORLD: [ranks.chunk(rows, -1) for rows in world]}
