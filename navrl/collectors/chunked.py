"""Rollouts that are collected a few steps at a time, so that they need not be in memory twice."""

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Protocol

from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite
from torchrl.envs import EnvBase

from navrl.collectors.leaves import FRAMES, Leaf, Place
from navrl.collectors.memory import TensorMemory
from navrl.collectors.rows import CompressedRows, HostRows, NextRows
from navrl.collectors.sync import SyncCollector

_MEBIBYTE = 1024.0 * 1024.0

Key = tuple[str, ...]


class Form(Protocol):
    """How the leaves are kept that are not kept as they are."""

    keys: Sequence[str]  # groups or leaves, with slashes; what is in "next" under these names too
    plain_share: float  # of the rollout's rows may be made at a time

    def rows(self, steps: int) -> CompressedRows | HostRows:
        """Who keeps the rows of one leaf of rollouts with so many steps."""


class Plain:
    """collector=stepwise: every leaf as it is."""

    keys = ()
    plain_share = 1.0

    def rows(self, steps: int) -> CompressedRows | HostRows:
        """Never asked."""
        raise LookupError("there is no leaf that is not kept as it is")


class OnHost:
    """collector=host: some leaves in the host's memory."""

    def __init__(self, *, keys: Sequence[str], plain_share: float) -> None:
        self.keys, self.plain_share = keys, _checked(plain_share)

    def rows(self, steps: int) -> CompressedRows | HostRows:
        """Who keeps the rows of one leaf."""
        return HostRows(steps=steps)


class Compressed:
    """collector=compressed: some leaves in lz4 blocks."""

    def __init__(self, *, keys: Sequence[str], plain_share: float, threads: int) -> None:
        if threads < 1:
            raise ValueError(
                f"threads = {threads}; expected 1 or more; change collector.form.threads"
            )
        self.keys, self.plain_share, self._threads = keys, _checked(plain_share), threads
        self._executor: Executor = ThreadPoolExecutor(threads, thread_name_prefix="lz4")

    def rows(self, steps: int) -> CompressedRows | HostRows:
        """Who keeps the rows of one leaf."""
        return CompressedRows(steps=steps, executor=self._executor, threads=self._threads)


class ChunkedCollector(SyncCollector):
    """Yields (N, T) frames of one policy version; read-only, and gone with the next iteration.

    The same frames as from SyncCollector, bit for bit. Leaves that the form keeps are Leaf objects.
    """

    def __init__(
        self,
        *,
        env: EnvBase,
        policy: Any,
        rollout_steps: int,
        total_frames: int,
        steps_at_once: int,
        form: Form,
    ) -> None:
        """At most `steps_at_once` steps: as many as divide the rollout into equal pieces."""
        if steps_at_once < 1:
            raise ValueError(
                f"collector.steps_at_once = {steps_at_once}; expected 1 or more; "
                "change collector.steps_at_once"
            )
        fits = [n for n in range(1, steps_at_once + 1) if rollout_steps % n == 0]
        self._kept = kept_leaves(env, form.keys)
        super().__init__(
            env=env,
            policy=policy,
            rollout_steps=fits[-1] if rollout_steps > 0 else rollout_steps,
            total_frames=total_frames,
        )
        self._steps, self._pieces = rollout_steps, rollout_steps // fits[-1]
        self._rest: TensorMemory | None = None
        self._now = {key: form.rows(rollout_steps) for key in self._kept}
        self._next = {key: NextRows(now, steps=rollout_steps) for key, now in self._now.items()}
        self._at_once = math.ceil(form.plain_share * env.batch_size.numel() * rollout_steps)
        self._plain_bytes, self._packing_s = 0, 0.0

    def iterator(self) -> Iterator[TensorDictBase]:
        """Rollouts that carry the version of the policy that collected them."""
        pieces = super().iterator()
        while True:
            for part in (self._rest, *self._now.values(), *self._next.values()):
                if part is not None:
                    part.clear()
            for _ in range(self._pieces):
                piece = next(pieces, None)
                if piece is None:
                    return
                version = piece.get_non_tensor("policy_version")
                self._append(piece.exclude("policy_version"))
            yield self._rollout().set_non_tensor("policy_version", version)

    def _append(self, piece: TensorDictBase) -> None:
        began = time.perf_counter()
        rest = piece.exclude(*self._kept, *(("next", *key) for key in self._kept))
        if self._rest is None:
            self._rest = TensorMemory(rest, capacity=self._steps, axis=1)
            self._plain_bytes = num_bytes(piece) * self._pieces
        self._rest.append(rest)
        for key in self._kept:
            now, after = piece.get(key), piece.get(("next", *key))
            self._now[key].append(now)
            self._next[key].append(now, after)
        self._packing_s += time.perf_counter() - began

    def _rollout(self) -> TensorDictBase:
        assert self._rest is not None
        (rollout,) = self._rest.parts()
        place = Place(first=0, steps=self._steps, leading=FRAMES, at_once=self._at_once)
        for key in self._kept:
            like = self._final_rollout.get(key)
            shape = (like.shape[0], self._steps, *like.shape[2:])
            rollout.set(key, Leaf(self._now[key], place, shape, like))
            rollout.set(("next", *key), Leaf(self._next[key], place, shape, like))
        return rollout

    def metrics(self) -> dict[str, float]:
        """What a rollout holds at most while it is learned from, and what keeping it so took."""
        if self._rest is None or not self._kept:
            return {}
        packed = (*self._now.values(), *self._next.values())
        made = sum(now.largest_bytes for now in self._now.values())
        held = self._rest.num_bytes + sum(rows.num_bytes for rows in packed) + made
        held += num_bytes(self._final_rollout)
        seconds = {
            "time/pack": self._packing_s,
            "time/unpack": sum(now.seconds for now in self._now.values()),
        }
        self._packing_s = 0.0
        for now in self._now.values():
            now.seconds, now.largest_bytes = 0.0, 0
        return {
            "memory/batch_mb": held / _MEBIBYTE,
            "memory/batch_share": held / self._plain_bytes,  # of what `sync` yields
            **seconds,
        }


def _checked(plain_share: float) -> float:
    if not 0.0 < plain_share <= 1.0:
        raise ValueError(
            f"plain_share = {plain_share}; expected more than 0, at most 1; "
            "change collector.form.plain_share"
        )
    return plain_share


def kept_leaves(env: EnvBase, names: Sequence[str]) -> list[Key]:
    """The leaves of these names that an env tells of one agent."""
    spec, found = env.observation_spec, []
    for name in names:
        key = tuple(name.split("/"))
        if key not in spec.keys(include_nested=True) and name not in spec:
            if "agents" in spec:
                raise ValueError(
                    "frames of a team are kept as they are; expected an env of one agent; use "
                    "collector=stepwise"
                )
            known = ", ".join(str(each) for each in spec)
            raise ValueError(
                f"collector.form.keys names {name}, and the env tells {known}; expected some of these; "
                "change collector.form.keys"
            )
        found += _below(key, spec[key])
    return found


def _below(key: Key, spec: Any) -> list[Key]:
    if not isinstance(spec, Composite):
        return [key]
    return [leaf for name, inner in spec.items() for leaf in _below((*key, name), inner)]


def num_bytes(frames: TensorDictBase) -> int:
    """What the tensors of these frames take."""
    leaves = frames.values(include_nested=True, leaves_only=True)
    return sum(x.numel() * x.element_size() for x in leaves if isinstance(x, Tensor))
