"""collector=sync: TorchRL's Collector, configured so that a step costs no host synchronisation."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import Composite
from torchrl.envs import EnvBase

from navrl.config.checks import require_whole
from navrl.storage.schema import Having, check


class CollectorOptions(TypedDict):
    """The arguments that every collector receives from the run."""

    env: EnvBase
    policy: Any
    rollout_steps: int
    total_frames: int


class SyncCollector(Collector):
    """A collector of (N, T) frames of one policy version; read-only, refilled by the next iteration."""

    lag = 0  # versions by which the collecting policy is older than the learner's

    def __init__(self, *, env: EnvBase, policy: Any, rollout_steps: int, total_frames: int) -> None:
        require_whole("rollout_steps", rollout_steps, 1)
        super().__init__(
            env,
            policy,
            frames_per_batch=env.batch_size.numel() * rollout_steps,
            total_frames=total_frames,
            device=env.device,
            return_same_td=True,  # one buffer, refilled
            track_traj_ids=False,  # two synchronisations a step, not used here
            no_cuda_sync=True,  # else user code runs on a private stream
            auto_register_policy_transforms=False,  # a TransformedEnv would bypass the fast path
            trust_policy=True,
        )

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield rollouts that carry the version of the policy that collected them."""
        for rollout in super().iterator():
            version = getattr(self.policy, "version", 0)
            # A shallow copy: keys that a user adds or pops never reach the buffer.
            yield rollout.copy().set_non_tensor("policy_version", version)

    def ahead(self) -> contextlib.AbstractContextManager[None]:
        """Collect nothing: this collector never works while the agent learns."""
        return contextlib.nullcontext()

    def metrics(self) -> dict[str, float]:
        """Return no metrics: this collector has no costs of its own."""
        return {}

    def _has_actions_of(self, rollout: TensorDictBase) -> bool:
        """Return whether the env has all actions of a rollout (N, T), which anybody may have written."""
        spec = self.env.full_action_spec[self.env.action_key]
        steps = rollout.get(self.env.action_key).unbind(1)
        return all(spec.is_in(step.to(self.env.device)) for step in steps)

    def _carrier_schema(self) -> Having:
        """Return what a frame to load is compared with; a policy with memory has written more into it."""
        written = self._final_rollout[:, 0].exclude("next").to_dict()
        if hasattr(self.policy, "memory_schema"):
            written |= self.policy.memory_schema(self.env.batch_size.numel())
        return _grown(self._carrier.exclude("next").to_dict(), written)

    def runtime_state(self) -> dict[str, Any]:
        """Return the frame that the next step starts from; with the env's state, collection is bit-exact."""
        return {"carrier": self._carrier.exclude("next").to_dict()}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore what runtime_state returned."""
        check(runtime, Having({"carrier": self._carrier_schema()}), "collector")
        shape, device = self.env.batch_size, self.env.device
        self._carrier = TensorDict(runtime["carrier"], batch_size=shape, device=device)
        for name, spec in self.env.observation_spec.items():
            if isinstance(spec, Composite):  # a group of agents has their axis
                self._carrier.get(name).batch_size = spec.shape


def _grown(fresh: Mapping[str, Any], written: Mapping[str, Any]) -> Having:
    """Return the schema of a nested frame to which entries may have been added."""
    needed = {
        name: _grown(value, written.get(name, {})) if isinstance(value, dict) else value
        for name, value in fresh.items()
    }
    added = {
        name: _grown({}, value) if isinstance(value, dict) else value
        for name, value in written.items()
        if name not in fresh
    }
    return Having(needed, added, others=False)
