"""Scripted pilots over simulator state, in physical units, vectorised over envs."""
