"""collector=sync: TorchRL's Collector, configured so that a step costs no host synchronisation."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector
from torchrl.data import Composite
from torchrl.envs import EnvBase


class SyncCollector(Collector):
    """Yields (N, T) frames of one policy version; read-only, refilled by the next iteration."""

    choice = ""  # why it is this collector, if the user left that open
    lag = 0  # how many versions older than the learner's the policy is that collected

    def __init__(self, *, env: EnvBase, policy: Any, rollout_steps: int, total_frames: int) -> None:
        if rollout_steps < 1:
            raise ValueError(
                f"rollout_steps = {rollout_steps}; expected 1 or more; change rollout_steps"
            )
        super().__init__(
            env,
            policy,
            frames_per_batch=env.batch_size.numel() * rollout_steps,
            total_frames=total_frames,
            device=env.device,
            return_same_td=True,  # one buffer, refilled
            track_traj_ids=False,  # two synchronisations a step, used by nobody here
            no_cuda_sync=True,  # else user code runs on a private stream
            auto_register_policy_transforms=False,  # a TransformedEnv would bypass the fast path
            trust_policy=True,
        )

    def iterator(self) -> Iterator[TensorDictBase]:
        """Rollouts that carry the version of the policy that collected them."""
        for rollout in super().iterator():
            version = getattr(self.policy, "version", 0)
            # A shallow copy: keys that a user adds or pops never reach the buffer.
            yield rollout.copy().set_non_tensor("policy_version", version)

    def ahead(self) -> contextlib.AbstractContextManager[None]:
        """What may be collected beside learning from the last rollout: nothing."""
        return contextlib.nullcontext()

    def metrics(self) -> dict[str, float]:
        """What this way of collecting costs, since it was asked last: nothing of its own."""
        return {}

    def runtime_state(self) -> dict[str, Any]:
        """What the next step starts from; with the env's state, collection goes on bit for bit."""
        return {"carrier": self._carrier.exclude("next").to_dict()}

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """The inverse of runtime_state."""
        shape, device = self.env.batch_size, self.env.device
        self._carrier = TensorDict(runtime["carrier"], batch_size=shape, device=device)
        for name, spec in self.env.observation_spec.items():
            if isinstance(spec, Composite):  # a group of agents has their axis
                self._carrier.get(name).batch_size = spec.shape
