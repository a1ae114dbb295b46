"""Worlds from elsewhere."""
