"""Drone navigation among obstacles."""
