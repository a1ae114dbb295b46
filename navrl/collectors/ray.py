"""collector=ray: simulations in processes of a Ray cluster, for worlds that fit no batch beside the learner.

Every process holds a SyncCollector for a range of env ids. Before each rollout it receives the learner's
weights, and the learner waits for all of them. TorchRL's own RayCollector is not used: its weights travel in
a group of fixed size, in which a process that died cannot be replaced, and rollouts carry no version.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Unpack

import torch
from tensordict import TensorDictBase

from navrl.collectors.sync import CollectorOptions, SyncCollector
from navrl.config.checks import ConfigError, require, require_choice, require_whole
from navrl.config.signals import ALL
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.random import plain_seed

# Of a number of envs and the id of the first: the env of a process, and an untrained policy for it.
MakeParts = Callable[[int, int], tuple[Any, Any]]
_ENDLESS = -1  # frames
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class WorkerDied(RuntimeError):  # noqa: N818 (it says what it is without a suffix)
    """The end of a process that collects; the message is one sentence for the user."""


class RayCollector:
    """A collector of (N, T) frames of one policy version, from processes with a share of the envs each."""

    lag = 0  # versions by which the collecting policy is older than the learner's
    elsewhere = (
        True  # it needs `make_parts`, with which processes build envs and policies of their own
    )

    def __init__(
        self,
        *,
        workers: int,
        cpus_per_worker: int,
        address: str | None,
        on_death: str,
        make_parts: MakeParts,
        seed: int,
        **options: Unpack[CollectorOptions],
    ) -> None:
        self._env, self._policy = options["env"], options["policy"]
        self._num_envs = self._env.batch_size.numel()
        self._steps, self._total = options["rollout_steps"], options["total_frames"]
        require_whole("rollout_steps", self._steps, 1)
        require_whole("collector.workers", workers, 1, self._num_envs)
        require_whole("collector.cpus_per_worker", cpus_per_worker, 0)
        require_choice("collector.on_death", on_death, ("replace", "end"))
        require(
            not isinstance(self._env, BatchedEnv),
            "collector",
            "ray",
            "a world from elsewhere such as env=gym, or collector=sync for this one, which is batched",
        )
        self._replace, self._seed, self._make_parts = on_death == "replace", seed, make_parts
        self._cpus, self._deaths = cpus_per_worker, 0
        self._workers: list[Any] = []
        bounds = [self._num_envs * i // workers for i in range(workers + 1)]
        self._ranges = [range(*pair) for pair in itertools.pairwise(bounds)]
        self._ray, self._started = _connected(address, max(1, workers * cpus_per_worker))
        self._require_cpus(workers * cpus_per_worker)
        self._workers = [self._begin(each) for each in self._ranges]

    def __iter__(self) -> Iterator[TensorDictBase]:
        """Yield rollouts that carry the version of the policy that collected them."""
        for _ in range(self._total // (self._num_envs * self._steps)):
            yield self._collect()

    def _collect(self) -> TensorDictBase:
        """Send the weights, wait for every process, and join their frames in the order of env ids."""
        version = getattr(self._policy, "version", 0)
        weights = {name: item.cpu() for name, item in self._policy.state_dict().items()}
        sent = self._ray.put(weights)
        pending = [worker.collect.remote(version, sent) for worker in self._workers]
        parts = [self._received(index, each, (version, sent)) for index, each in enumerate(pending)]
        rollout: TensorDictBase = torch.cat(parts, 0).to(self._env.device)
        rollout.names = [None, "time"]
        return rollout.set_non_tensor("policy_version", version)

    def _received(self, index: int, pending: Any, work: tuple[int, Any]) -> TensorDictBase:
        """Return the frames of a process, or of the one that takes its place if it died."""
        try:
            return self._ray.get(pending)
        except self._ray.exceptions.RayActorError as error:
            died = self._death(index, error)
        if not self._replace:
            raise WorkerDied(
                f"{died}; go on with resume=<the run>, or choose collector.on_death=replace"
            ) from died
        self._deaths += 1
        warnings.warn(f"{died}; another one begins new episodes there", stacklevel=2)
        self._workers[index] = self._begin(self._ranges[index])
        try:
            return self._ray.get(self._workers[index].collect.remote(*work))
        except self._ray.exceptions.RayActorError as error:
            raise self._death(index, error) from error

    def _death(self, index: int, error: Exception) -> WorkerDied:
        ids = self._ranges[index]
        reason = " ".join(str(error).split()).partition(".")[0][:200]
        return WorkerDied(
            f"the process of collector=ray with envs {ids.start} to {ids.stop - 1} died ({reason})"
        )

    def _begin(self, ids: range) -> Any:
        """Start a process for these env ids; one that replaces another draws other random numbers."""
        remote = self._ray.remote(num_cpus=self._cpus)(_Worker)
        seed = plain_seed(self._seed + ids.start + self._num_envs * (1 + self._deaths))
        return remote.remote(self._make_parts, len(ids), ids.start, self._steps, seed)

    def _require_cpus(self, wanted: int) -> None:
        """Raise ConfigError if the cluster lacks cores, for which processes would wait without end."""
        found = int(self._ray.cluster_resources().get("CPU", 0))
        if found < wanted:
            self.shutdown()
            raise ConfigError(
                f"collector.workers = {len(self._ranges)} with collector.cpus_per_worker = {self._cpus}; "
                f"expected at most the {found} CPUs of the cluster in all; change collector.workers, or use "
                "collector.cpus_per_worker=0, which reserves none"
            )

    def ahead(self) -> contextlib.AbstractContextManager[None]:
        """Collect nothing: this collector never works while the agent learns."""
        return contextlib.nullcontext()

    def metrics(self) -> dict[str, float]:
        """Return how many processes were replaced so far."""
        return {"sync/replaced_workers": float(self._deaths)}

    def runtime_state(self) -> dict[str, Any]:
        """Return nothing: episodes of a world from elsewhere cannot be saved."""
        return {}

    def load_runtime_state(self, runtime: Mapping[str, Any]) -> None:
        """Do nothing, because nothing was saved."""

    def shutdown(self) -> None:
        """End the processes, and the cluster if it was started here."""
        workers, self._workers = self._workers, []
        for worker in workers:
            self._ray.kill(worker)
        if self._started:
            self._started = False
            self._ray.shutdown()
        if not self._env.is_closed:
            self._env.close()


class _Worker:
    """A process that collects with its own envs."""

    def __init__(
        self, make_parts: MakeParts, num_envs: int, first_env_id: int, steps: int, seed: int
    ) -> None:
        env, self._policy = make_parts(num_envs, first_env_id)
        torch.manual_seed(seed)
        collector = SyncCollector(
            env=env, policy=self._policy, rollout_steps=steps, total_frames=_ENDLESS
        )
        self._rollouts = iter(collector)

    def collect(self, version: int, weights: Mapping[str, torch.Tensor]) -> TensorDictBase:
        """Return the next rollout of the policy with these weights."""
        self._policy.load_state_dict(weights)
        self._policy.version = version
        return next(self._rollouts).exclude("policy_version")


def _connected(address: str | None, cpus: int) -> tuple[Any, bool]:
    """Return Ray, connected to the cluster at that address or to a new one, and whether it is new."""
    if find_spec("ray") is None:
        raise ConfigError(
            "collector=ray needs a package that is not installed; pip install 'navrl[ray]'"
        )
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return ray, False
    resources: dict[str, Any] = {"num_cpus": cpus} if address in (None, "local") else {}
    before = {number: signal.getsignal(number) for number in ALL}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **resources,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"collector.address = {address}; expected null, auto or a running Ray cluster ({reason}); change "
            "collector.address"
        ) from error
    finally:
        with contextlib.suppress(ValueError):  # another thread than the first, which sets none
            for number, handler in before.items():
                signal.signal(number, handler)
    return ray, True
