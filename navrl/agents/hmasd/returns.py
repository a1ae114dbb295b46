"""Advantages of decisions that last several steps, by one backward scan over the rollout itself."""

from typing import NamedTuple

import torch
from torch import Tensor

INTERVAL_END, EPISODE_END, ROLLOUT_END = range(3)  # the event that ended a decision
ENDS = {"interval": INTERVAL_END, "episode_end": EPISODE_END, "rollout_end": ROLLOUT_END}


class Decisions(NamedTuple):
    """The results of the decision made at a step; undefined where none was made. (N, T) or (N, T, H)."""

    advantage: Tensor  # (N, T, H), one for each value head
    reward: Tensor  # (N, T), while it lasted
    duration: Tensor  # (N, T), steps
    end: Tensor  # (N, T), one of ENDS


def smdp_gae(
    *,
    reward: Tensor,
    decide: Tensor,
    done: Tensor,
    terminated: Tensor,
    value: Tensor,
    next_value: Tensor,
    discount: float,
    gae_lambda: float,
    mode: str,
) -> Decisions:
    """Compute generalised advantages over decisions; rewards and flags are (N, T), values (N, T, H).

    `value` counts at decisions. `next_value` is that of the state in which each step ends, before any
    reset; it counts where an episode is cut and at the end of the rollout. mode: per_decision discounts
    once from decision to decision and not in between, as published; smdp discounts every step.
    """
    inside = discount if mode == "smdp" else 1.0
    continues = (~terminated).unsqueeze(-1)
    ahead, trace = next_value[:, -1], torch.zeros_like(next_value[:, -1])
    total, steps = torch.zeros_like(reward[:, -1]), torch.zeros_like(reward[:, -1])
    end = torch.full_like(steps, ROLLOUT_END)
    columns = (reward, decide, done, continues, value, next_value)
    backwards = zip(*(reversed(column.unbind(1)) for column in columns), strict=True)
    results: list[Decisions] = []
    for r, decides, ended, goes_on, v, v_next in backwards:
        over = ended.unsqueeze(-1)
        ahead = torch.where(over, v_next * goes_on, ahead)
        trace = trace.masked_fill(over, 0.0)
        total = r + inside * total.masked_fill(ended, 0.0)
        steps = 1.0 + steps.masked_fill(ended, 0.0)
        end = end.masked_fill(ended, EPISODE_END)
        factor = (discount**steps if mode == "smdp" else torch.full_like(steps, discount))[:, None]
        advantage = total.unsqueeze(-1) + factor * (ahead + gae_lambda * trace) - v
        results.append(Decisions(advantage, total, steps, end))
        new = decides.unsqueeze(-1)
        ahead, trace = torch.where(new, v, ahead), torch.where(new, advantage, trace)
        total, steps = total.masked_fill(decides, 0.0), steps.masked_fill(decides, 0.0)
        end = end.masked_fill(decides, INTERVAL_END)
    return Decisions(*(torch.stack(rows[::-1], 1) for rows in zip(*results, strict=True)))
