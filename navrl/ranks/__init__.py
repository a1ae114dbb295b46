"""Processes that train one policy together: their group, and the random numbers of all their envs."""

from navrl.ranks.group import RankGroup, RankLost, Ranks, check_shares, lost_ranks
from navrl.ranks.shared import shares_memory
from navrl.ranks.world import (
    cores,
    idle_cores,
    is_follower,
    own_rows,
    process_group,
    ranks_of,
    world,
)

__all__ = [
    "RankGroup",
    "RankLost",
    "Ranks",
    "check_shares",
    "cores",
    "idle_cores",
    "is_follower",
    "lost_ranks",
    "own_rows",
    "process_group",
    "ranks_of",
    "shares_memory",
    "world",
]
