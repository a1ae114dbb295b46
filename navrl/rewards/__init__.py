"""Rewards: named, weighted, pure terms over what was, what is and what happened."""
