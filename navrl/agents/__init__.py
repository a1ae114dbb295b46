"""Agents: what learns from rollouts."""
