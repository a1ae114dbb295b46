"""Shared by all envs: the batched env, weighted rewards, random numbers, compiling."""
