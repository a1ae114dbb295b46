"""When skills are chosen: at the start of an episode, after `interval` steps, and under a new policy."""

from typing import NamedTuple

import torch
from torch import Tensor

from navrl.agents.hmasd.returns import BATCH_END, EPISODE_END, INTERVAL_END

# Why a decision was made; none was made where it is NONE.
NONE, INTERVAL, RESET, BATCH_START = range(4)
REASONS = {"interval": INTERVAL, "reset": RESET, "batch_start": BATCH_START}
ENDS = {"interval": INTERVAL_END, "episode_end": EPISODE_END, "batch_end": BATCH_END}


class Memory(NamedTuple):
    """What the policy hands from step to step; envs make it all zeros where an episode ended."""

    chosen: Tensor  # int64 (N, positions), the skills
    timer: Tensor  # int64 (N, 1), steps since they were chosen
    stamp: Tensor  # int64 (N, 1), policy version that chose them, plus 1; 0: nobody has chosen yet


def fresh(num_envs: int, positions: int, device: torch.device) -> Memory:
    """What there is before anything was chosen."""
    zeros = torch.zeros(num_envs, positions, dtype=torch.int64, device=device)
    return Memory(zeros, zeros[:, :1], zeros[:, :1])


def reasons(memory: Memory, *, interval: int, version: int) -> Tensor:
    """Why each env needs a decision now, uint8 (N, 1).

    A new version always chooses anew, so every step of a rollout belongs to a decision of the policy that
    collected it: that is what makes high-level learning on-policy.
    """
    over = torch.where(memory.timer >= interval, INTERVAL, NONE)
    foreign = torch.where(memory.stamp != version + 1, BATCH_START, over)
    return torch.where(memory.stamp == 0, RESET, foreign).to(torch.uint8)


def renewed(memory: Memory, due: Tensor, chosen: Tensor, *, version: int) -> Memory:
    """The memory with which this step is made, `chosen` where a decision is due (N, 1)."""
    return Memory(
        torch.where(due, chosen, memory.chosen),
        torch.where(due, 0, memory.timer),
        torch.where(due, version + 1, memory.stamp),
    )
