"""A small fight, an agent for it, and the collector between them."""

from tests.small_fight import *  # noqa: F403
