"""Faster arithmetic on CPUs."""
