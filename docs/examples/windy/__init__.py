"""A package with the world windy; docs/online.md uses it."""
