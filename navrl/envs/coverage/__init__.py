"""Drones that serve users on the ground."""
