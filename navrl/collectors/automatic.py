"""collector=auto: of the ways to collect the same rollouts, the fastest that a budget of memory allows."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torchrl.envs import EnvBase

from navrl.collectors.chunked import kept_leaves, num_bytes
from navrl.collectors.sync import SyncCollector

_MEBIBYTE = 1 << 20

Make = Callable[..., SyncCollector]


class _Way(NamedTuple):
    """A collector, and what a rollout takes of the device's memory with it."""

    name: str
    make: Make
    least_bytes: float  # if everything that can be compressed became nothing
    most_bytes: float

    @property
    def told(self) -> str:
        least, most = (max(1, round(b / _MEBIBYTE)) for b in (self.least_bytes, self.most_bytes))
        return f"{least} MB" if least == most else f"{least} to {most} MB"


def automatic(
    *,
    memory_mb: float | None,
    sync: Make,
    stepwise: Make,
    host: Make,
    compressed: Make,
    env: EnvBase,
    policy: Any,
    rollout_steps: int,
    total_frames: int,
) -> SyncCollector:
    """The collector, with the reason for it as its `choice`. All of them yield the same frames."""
    if memory_mb is not None and not memory_mb > 0.0:
        raise ValueError(
            f"collector.memory_mb = {memory_mb:g}; expected more than 0, or null for half of what is free; "
            "change collector.memory_mb"
        )
    budget = _free_bytes(env.device) / 2 if memory_mb is None else memory_mb * _MEBIBYTE
    frames = num_bytes(env.fake_tensordict()) * rollout_steps
    ways = [
        _Way("sync", sync, 2.0 * frames, 2.0 * frames)
    ]  # the steps, and what they are joined to
    others = {"stepwise": stepwise, "host": host, "compressed": compressed}
    for name, make in others.items():
        way = _in_pieces(name, make, env, frames, rollout_steps)
        if way is not None:
            ways.append(way)
    fitting = [way for way in ways if way.least_bytes <= budget]
    limit = f"{budget / _MEBIBYTE:.0f} MB"
    limit += ", half of what is free" if memory_mb is None else " (collector.memory_mb)"
    if not fitting:
        raise ValueError(
            f"a rollout of {env.batch_size.numel()} envs x {rollout_steps} steps takes {ways[-1].told} with "
            f"collector={ways[-1].name}, and the budget is {limit}; expected more; change "
            "collector.memory_mb, rollout_steps or num_envs"
        )
    chosen = fitting[0]
    collector = chosen.make(
        env=env, policy=policy, rollout_steps=rollout_steps, total_frames=total_frames
    )
    tried = "; ".join(f"{way.name} takes {way.told}" for way in ways[: ways.index(chosen)])
    collector.choice = (
        f"collector={chosen.name}: a rollout takes {chosen.told}, the budget is {limit}"
        + (f"; {tried}" if tried else "")
    )
    return collector


def _in_pieces(name: str, make: Any, env: EnvBase, frames: int, steps: int) -> _Way | None:
    """None where this way saves nothing: on the host already, or frames of a team."""
    form = make.keywords["form"]
    if name == "host" and env.device.type == "cpu":
        return None
    try:
        leaves = kept_leaves(env, form.keys)
    except ValueError:  # of an env that tells other things
        return None
    told = env.fake_tensordict()
    once = sum(num_bytes(told.select(leaf)) for leaf in leaves) * steps
    piece = 2.0 * frames * min(make.keywords["steps_at_once"], steps) / steps
    least = frames - 2 * once + form.plain_share * once + piece
    return _Way(name, make, least, least + once * (name == "compressed"))


def _free_bytes(device: torch.device) -> float:
    """What nobody uses of the memory that rollouts are in."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except ValueError as error:
        raise ValueError(
            "collector.memory_mb = null, and this system does not tell how much memory is free; expected a "
            "number; set collector.memory_mb"
        ) from error
