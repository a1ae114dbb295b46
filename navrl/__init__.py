"""navrl trains policies inside thousands of batched simulations."""

from importlib.metadata import PackageNotFoundError, version

from navrl.run.early import is_command, leave_at_once

if is_command():
    leave_at_once()  # imports take seconds, and only then there is somebody to handle Ctrl-C

try:
    __version__ = version("navrl")
except PackageNotFoundError:  # a checkout that nobody installed
    __version__ = "0.1.0+source"
