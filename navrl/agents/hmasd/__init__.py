"""agent=hmasd: a team that chooses skills from time to time, and learns to tell them apart."""

from navrl.agents.hmasd.options import (
    ActorOptions,
    CoordinatorOptions,
    DiscriminatorOptions,
    IntrinsicOptions,
    PPOOptions,
)

__all__ = [
    "ActorOptions",
    "CoordinatorOptions",
    "DiscriminatorOptions",
    "IntrinsicOptions",
    "PPOOptions",
]
