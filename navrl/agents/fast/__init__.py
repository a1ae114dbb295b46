"""Faster arithmetic and memory on CPUs; docs/results/speed.md has a figure for each file."""
