"""Advantages of decisions that last several steps, by one backward scan over the rollout itself."""

from typing import NamedTuple

import torch
from torch import Tensor

MODES = ("per_decision", "smdp")
PARTS = ("bootstrap", "drop")
INTERVAL_END, EPISODE_END, BATCH_END = range(3)  # how the time of a decision came to its end


class Decisions(NamedTuple):
    """What came of the decision made at a step; anything where none was made. (N, T) or (N, T, H)."""

    advantage: Tensor  # (N, T, H), one for each value head
    reward: Tensor  # (N, T), while it lasted
    duration: Tensor  # (N, T), steps
    end: Tensor  # (N, T), one of the three


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
    """Generalised advantages over decisions; rewards and flags are (N, T), values (N, T, H).

    `value` counts at decisions. `next_value` is that of the state in which each step ends, before any
    reset; it counts where an episode is cut and at the end of the rollout. mode: per_decision discounts
    once from decision to decision and not in between, as published; smdp discounts every step.
    """
    inside = discount if mode == "smdp" else 1.0
    runs = (~terminated).unsqueeze(-1)
    ahead, trace = next_value[:, -1], torch.zeros_like(next_value[:, -1])
    total, steps = torch.zeros_like(reward[:, -1]), torch.zeros_like(reward[:, -1])
    end = torch.full_like(steps, BATCH_END)
    found: list[Decisions] = []
    columns = (reward, decide, done, runs, value, next_value)
    for r, here, ended, lives, v, v_next in zip(
        *(reversed(column.unbind(1)) for column in columns), strict=True
    ):
        over = ended.unsqueeze(-1)
        ahead = torch.where(over, v_next * lives, ahead)
        trace = trace.masked_fill(over, 0.0)
        total = r + inside * total.masked_fill(ended, 0.0)
        steps = 1.0 + steps.masked_fill(ended, 0.0)
        end = end.masked_fill(ended, EPISODE_END)
        factor = (discount**steps if mode == "smdp" else torch.full_like(steps, discount))[:, None]
        advantage = total.unsqueeze(-1) + factor * (ahead + gae_lambda * trace) - v
        found.append(Decisions(advantage, total, steps, end))
        chosen = here.unsqueeze(-1)
        ahead, trace = torch.where(chosen, v, ahead), torch.where(chosen, advantage, trace)
        total, steps = total.masked_fill(here, 0.0), steps.masked_fill(here, 0.0)
        end = end.masked_fill(here, INTERVAL_END)
    return Decisions(*(torch.stack(rows[::-1], 1) for rows in zip(*found, strict=True)))


def check_returns(*, mode: str, partial: str) -> None:
    """Refuse names that mean nothing."""
    for option, value, known in (("gamma_mode", mode, MODES), ("partial", partial, PARTS)):
        if value not in known:
            raise ValueError(
                f"agent.coordinator.{option} = {value!r}; expected one of {', '.join(known)}; "
                f"change agent.coordinator.{option}"
            )
