"""navrl trains policies inside thousands of batched simulations."""

from importlib.metadata import PackageNotFoundError, version

from navrl.config.compile_cache import use_private_cache

try:
    __version__ = version("navrl")
except PackageNotFoundError:  # a checkout that nobody installed
    __version__ = "0.2.0+source"

use_private_cache()  # before torch is imported
