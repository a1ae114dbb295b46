"""collector=stepwise: collect a few steps at a time, so that a rollout is not in memory twice."""

from collections.abc import Iterator
from typing import Unpack

from tensordict import TensorDictBase

from navrl.collectors.sync import CollectorOptions, SyncCollector
from navrl.collectors.tensor_memory import TensorMemory
from navrl.config.checks import require_whole


class StepwiseCollector(SyncCollector):
    """A collector of (N, T) frames of one policy version; read-only, overwritten by the next iteration.

    The frames are those of SyncCollector, bit for bit.
    """

    def __init__(self, *, steps_at_once: int, **options: Unpack[CollectorOptions]) -> None:
        """Collect at most `steps_at_once` steps at a time: the largest number that divides the rollout."""
        rollout_steps = options["rollout_steps"]
        require_whole("rollout_steps", rollout_steps, 1)
        require_whole("collector.steps_at_once", steps_at_once, 1)
        at_once = max(n for n in range(1, steps_at_once + 1) if rollout_steps % n == 0)
        options["rollout_steps"] = at_once
        super().__init__(**options)
        self._steps, self._pieces = rollout_steps, rollout_steps // at_once
        self._memory: TensorMemory | None = None

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield rollouts that carry the version of the policy that collected them."""
        pieces = super().iterator()
        while True:
            self._clear()
            for _ in range(self._pieces):
                piece = next(pieces, None)
                if piece is None:
                    return
                version = piece.get_non_tensor("policy_version")
                self._append(piece.exclude("policy_version"))
            yield self._rollout().set_non_tensor("policy_version", version)

    def _clear(self) -> None:
        """Forget the last rollout."""
        if self._memory is not None:
            self._memory.clear()

    def _append(self, piece: TensorDictBase) -> None:
        """Add the next steps of all envs."""
        if self._memory is None:
            self._memory = TensorMemory(piece, capacity=self._steps, axis=1)
        self._memory.append(piece)

    def _rollout(self) -> TensorDictBase:
        """Return all steps as one rollout."""
        assert self._memory is not None
        (rollout,) = self._memory.parts()
        return rollout
