"""Worlds from files: point clouds and height maps as boxes that the simulator can see."""
