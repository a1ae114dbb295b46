"""agent=hmasd: hierarchical multi-agent skill discovery."""

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
