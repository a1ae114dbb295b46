"""The Python interface, as navrl/__init__.py offers it."""
