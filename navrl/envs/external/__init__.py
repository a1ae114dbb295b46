"""Worlds from other libraries."""
