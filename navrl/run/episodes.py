"""What the episodes that ended in a rollout were like."""

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.contracts import Env
from navrl.run.intervals import wilson


def episode_sums(rollout: TensorDictBase) -> Tensor:
    """Number of ended episodes, then the sum of each statistic over them; on its way to the host.

    Ask before the update and read after it: the update's one read of the device then waits for this copy
    too, and reading costs no synchronisation of its own.
    """
    done = rollout.get(("next", "done"))
    sums = torch.where(done, rollout.get(("next", "episode")), 0.0).sum((0, 1))
    return torch.cat([done.sum().reshape(1).to(sums.dtype), sums]).to("cpu", non_blocking=True)


def episode_metrics(env: Env, counted: Tensor) -> dict[str, float]:
    """Means over the ended episodes, by name; only their count when there are none."""
    count, *totals = counted.tolist()
    metrics = {"episode/count": count}
    if count == 0:
        return metrics
    sums = dict(zip(env.episode_keys, totals, strict=True))
    for name, total in sums.items():
        if name.startswith("_"):
            continue  # a label, which has no mean
        number = sums[env.counted_when[name]] if name in env.counted_when else count
        term = name.removeprefix("reward_")
        if number:
            metrics[f"reward/{term}" if term != name else f"episode/{name}"] = total / number
    objective = f"episode/{env.objective}"
    if env.objective in env.rate_names:
        hits = round(metrics[objective] * count)
        interval = wilson(hits, int(count))
        metrics |= {f"{objective}_low": interval.low, f"{objective}_high": interval.high}
    return metrics
