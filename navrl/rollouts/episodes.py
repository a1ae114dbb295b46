"""What the episodes that ended in a rollout were like."""

from typing import Any

import torch
from tensordict import TensorDictBase

from navrl.stats import wilson


def episode_metrics(env: Any, rollout: TensorDictBase) -> dict[str, float]:
    """Means over the episodes that ended in the rollout; empty when none did."""
    done = rollout.get(("next", "done"))
    ends = (rollout.get(("next", "episode")) * done).sum((0, 1))
    count, *sums = torch.cat([done.sum().reshape(1).to(ends.dtype), ends]).tolist()
    metrics = {"episode/count": count}
    if count == 0:
        return metrics
    for name, total in zip(env.episode_keys, sums, strict=True):
        term = name.removeprefix("reward_")
        metrics[f"reward/{term}" if term != name else f"episode/{name}"] = total / count
    objective = f"episode/{env.objective}"
    hits = round(metrics[objective] * count)
    metrics[f"{objective}_margin"] = wilson(hits, int(count)).margin
    return metrics
