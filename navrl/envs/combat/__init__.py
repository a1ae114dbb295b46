"""Planar air combat."""
