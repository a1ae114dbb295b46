"""What a team did with its skills in a rollout."""

import torch
from torch import Tensor
from torch.nn import functional

from navrl.agents.hmasd import timing
from navrl.agents.hmasd.blocks import Block


def usage(
    block: Block, *, team_skills: int, individual_skills: int, version: int
) -> dict[str, Tensor]:
    """Shares of decisions, by skill and by what they changed; and how many steps had foreign skills."""
    decide = block.reason != timing.NONE
    weight = decide.float() / decide.sum().clamp_min(1)
    team = (functional.one_hot(block.team, team_skills) * weight.unsqueeze(-1)).sum((0, 1))
    each = functional.one_hot(block.skill, individual_skills) * weight[..., None, None]
    individual = each.sum((0, 1, 2)) / block.skill.shape[-1]
    changed = (block.chosen[:, 1:] != block.chosen[:, :-1]).any(-1)
    again = (block.reason == timing.INTERVAL)[:, 1:]
    ordered = block.skill.sort(-1).values
    distinct = (ordered[..., 1:] != ordered[..., :-1]).all(-1)
    return {
        **{f"skill/usage_Z_{i}": share for i, share in enumerate(team.unbind())},
        **{f"skill/usage_z_{i}": share for i, share in enumerate(individual.unbind())},
        "skill/switches": (changed & again).sum() / again.sum().clamp_min(1),
        "skill/distinct_frac": (distinct * weight).sum(),
        "sync/stale_frames": (block.stamp != version + 1).sum().float(),
    }


def broken_steps(metrics: dict[str, Tensor]) -> Tensor:
    """The share of gradient steps of some part that were left out, 0 where all were made."""
    shares = [value for name, value in metrics.items() if "broken" in name]
    return torch.stack(shares).max()
