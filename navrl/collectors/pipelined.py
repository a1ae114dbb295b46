"""collector=pipelined: collect the next rollout while the agent learns from the last one."""

import contextlib
import copy
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any, Unpack

import torch
from tensordict import TensorDict, TensorDictBase

from navrl.collectors.sync import CollectorOptions, SyncCollector
from navrl.storage.schema import check, exactly, whole


class PipelinedCollector(SyncCollector):
    """A collector of (N, T) frames of the policy before its last update, except for the first rollout.

    A thread collects within `ahead` and never outside of it: with a private copy of the weights, into
    a buffer that nothing reads. So code outside of it changes or saves an env that is at rest.
    """

    lag = 1
    _final_rollout: TensorDictBase  # TorchRL's buffer for the next rollout

    def __init__(self, **options: Unpack[CollectorOptions]) -> None:
        self._stopping = threading.Event()
        self._worker = ThreadPoolExecutor(
            1, "collector", torch.set_num_threads, (torch.get_num_threads(),)
        )
        self._learner = options["policy"]
        private = copy.deepcopy(self._learner).requires_grad_(False)
        super().__init__(**{**options, "policy": private})
        self.interruptor = SimpleNamespace(collection_stopped=self._stopping.is_set)
        self._spare: TensorDictBase = self._final_rollout.clone()
        self._fresh = super().iterator()
        self._ready: TensorDictBase | None = None  # collected, and not handed over yet
        self._times: dict[str, float] = {}

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield rollouts that carry the version of the policy that collected them."""
        while (rollout := self._next()) is not None:
            yield rollout

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """Collect the next rollout while the body runs; both are finished at the end."""
        if self._ready is not None:  # it is there already
            yield
            return
        self._prepare()
        collecting = self._worker.submit(self._collect)
        try:
            yield
            done = time.perf_counter()
            self._ready = collecting.result()
            self._times["time/collect_wait"] = time.perf_counter() - done
        except BaseException:
            self._stopping.set()  # it ends with the step under way
            wait([collecting])
            raise

    def _next(self) -> TensorDictBase | None:
        if self._ready is None:
            self._prepare()
            return self._collect()
        rollout, self._ready = self._ready, None
        return rollout

    def _prepare(self) -> None:
        """Take the newest weights, and the buffer of the rollout before the last one."""
        self.policy.load_state_dict(self._learner.state_dict())
        self.policy.version = getattr(self._learner, "version", 0)
        self._final_rollout, self._spare = self._spare, self._final_rollout

    def _collect(self) -> TensorDictBase | None:
        began = time.perf_counter()
        rollout = next(self._fresh, None)
        self._times["time/collect_ahead"] = time.perf_counter() - began
        return rollout

    def metrics(self) -> dict[str, float]:
        """Return the seconds that the thread collected, and that learning waited for it."""
        times, self._times = self._times, {}
        return times

    def runtime_state(self) -> dict[str, Any]:
        """Include the rollout collected ahead: its weights are gone, so it could not be collected again."""
        state = super().runtime_state()
        if self._ready is not None:
            version = self._ready.get_non_tensor("policy_version")
            frames = self._ready.exclude("policy_version").to_dict()
            state["ahead"] = {"frames": frames, "policy_version": version}
        return state

    def load_runtime_state(self, runtime: dict[str, Any]) -> None:
        """Restore what runtime_state returned; a checkpoint of another collector holds nothing ahead."""
        super().load_runtime_state(runtime)
        ahead = runtime.get("ahead")
        if ahead is not None:
            self._check_ahead(ahead)
            self._final_rollout.update_(TensorDict(ahead["frames"], self._final_rollout.batch_size))
            rollout = self._final_rollout.copy()
            self._ready = rollout.set_non_tensor("policy_version", ahead["policy_version"])
            self._frames += rollout.numel()

    def _check_ahead(self, ahead: Any) -> None:
        """Raise CheckpointMismatch unless this is a rollout of the learner's version or the one before."""
        newest = getattr(self._learner, "version", 0)
        frames = self._final_rollout.exclude("policy_version").to_dict()
        version = whole(max(0, newest - 1), newest)
        check(ahead, {"frames": frames, "policy_version": version}, "collector/ahead")
        rollout = TensorDict(ahead["frames"], self._final_rollout.batch_size)
        known = self._has_actions_of(rollout)
        check(known, exactly(True), "collector/ahead/frames, whether the env has its actions")

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """Close the env; the thread is idle."""
        self._stopping.set()
        self._worker.shutdown()
        super().shutdown(*args, **kwargs)
