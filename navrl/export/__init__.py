"""Worlds that leave navrl for other libraries."""
