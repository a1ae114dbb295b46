"""navrl trains policies inside thousands of batched simulations."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("navrl")
except PackageNotFoundError:  # a checkout that nobody installed
    __version__ = "0.2.0+source"
