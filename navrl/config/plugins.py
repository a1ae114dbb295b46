"""Packages of users: plugins=[mylab] lets configurations name its classes, and adds its conf/ to ours.

A package is allowed if the command line names it, or if it is installed with the entry point navrl.plugins.
What a stored configuration names is never imported on its word.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin

from navrl.config.checks import ConfigError, did_you_mean

KEY = "plugins"
GROUP = "navrl.plugins"  # of entry points
NEVER = {"navrl", *sys.stdlib_module_names}  # os.system is no part of anybody's package
_typed: list[str] = []  # by the command line
_folders: list[Path] = []  # of --config-dir, in commands that are not Hydra's


def allow_plugins(words: Sequence[str]) -> None:
    """Allow the packages that the words plugins=... of a command line name."""
    names = [
        name for word in words if word.lstrip("+").startswith(f"{KEY}=") for name in _names(word)
    ]
    for name in names:
        if name in _typed:
            continue
        folder = _folder(name) or _folder_here(name)
        if folder is None:
            raise ConfigError(
                f"{KEY} = {name}; expected a package that Python finds; install it, run the command beside "
                f"its folder, or change {KEY}"
            )
        if not _is_package(folder) and _is_package(folder / name):
            raise ConfigError(
                f"{KEY} = {name}; expected the folder of the package, and {folder} is the one around it; run "
                "the command in there"
            )
        _typed.append(name)


@contextlib.contextmanager
def own_plugins() -> Iterator[None]:
    """Forget in the end which packages were allowed while open: the process may run other commands."""
    before = [*_typed]
    try:
        yield
    finally:
        _typed[:] = before


def add_folder(folder: Path) -> None:
    """Add a folder of YAML, as Hydra's own commands do with --config-dir."""
    if not folder.is_dir():
        raise ConfigError(
            f"--config-dir {folder}; expected a folder like conf/; change --config-dir"
        )
    _folders.append(folder.absolute())


def _names(word: str) -> list[str]:
    """Return the packages in plugins=[a,b] or plugins=a."""
    try:
        value: Any = OverridesParser.create().parse_override(word).value()
    except HydraException as error:
        raise ConfigError(f"Cannot read '{word}': write {KEY}=[mylab]") from error
    names = value if isinstance(value, list) else [] if value is None else [value]
    if not all(
        isinstance(name, str) and name.isidentifier() and name not in NEVER for name in names
    ):
        raise ConfigError(
            f"{KEY} = {value}; expected names of packages, as in {KEY}=[mylab]; change {KEY}"
        )
    return names


def allowed() -> list[str]:
    """Return the packages whose classes a configuration may name besides navrl's."""
    return [*_typed, *(name for name in _installed() if name not in _typed)]


@cache
def _installed() -> tuple[str, ...]:
    """Return the packages that are installed with our entry point; files in the current folder are not."""
    here = ("", os.getcwd())  # in which `python -m` looks first
    found = importlib.metadata.distributions(path=[each for each in sys.path if each not in here])
    points = [point for each in found for point in each.entry_points if point.group == GROUP]
    return tuple(dict.fromkeys(point.value.partition(":")[0].partition(".")[0] for point in points))


def advice(package: str) -> str:
    """Return the end of a sentence about a package that is not allowed: what to do, if anything."""
    if package in NEVER:
        return ""
    folder = _folder(package)
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if folder is not None and any(folder.is_relative_to(place) for place in places):
        # Nobody is talked into torch or pip, whose functions run any code.
        return f", because {package} is installed without the entry point {GROUP}"
    return f"; if you trust that package, add {KEY}=[{package}]"


def _folder(package: str) -> Path | None:
    """Return the folder of a package, None without one; nothing is imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


def _folder_here(package: str) -> Path | None:
    """Return the folder of a package beside us, and let Python import from there, None without one."""
    here = os.getcwd()
    if here in sys.path:
        return None
    sys.path.append(here)  # last, so that nothing there takes the place of anything
    folder = _folder(package)
    if folder is None:
        sys.path.remove(here)
    return folder


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def find_target(name: str, path: str) -> Callable[..., Any]:
    """Return the class or function of that name, which an allowed package has to define itself."""
    module_name, _, attribute = name.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):  # it needs what is not installed
            raise _unusable(name, path, error) from error
        raise ConfigError(f"'{path}' names '{name}', but there is no such module") from error
    except ConfigError:
        raise
    except Exception as error:
        raise _unusable(name, path, error) from error
    own = {key: item for key, item in vars(module).items() if _is_own(item, module_name)}
    if attribute not in own:
        hint = did_you_mean(attribute, [*own])
        raise ConfigError(
            f"'{path}' names '{name}'; expected a class or function that {module_name} defines{hint}"
        )
    found: Callable[..., Any] = own[attribute]
    return found


def _unusable(name: str, path: str, error: Exception) -> ConfigError:
    """Return the error about a module of a plugin whose import fails."""
    module, reason = name.rpartition(".")[0], " ".join(str(error).split())
    return ConfigError(
        f"'{path}' names '{name}', but {module} cannot be imported: {type(error).__name__}: {reason}; change "
        "that module"
    )


def _is_own(item: Any, module_name: str) -> bool:
    """Return whether a class or function comes from the package itself, not from one that it imports."""
    package = module_name.partition(".")[0]
    is_code = inspect.isclass(item) or inspect.isfunction(item)
    return is_code and item.__module__.partition(".")[0] == package


class _PluginConf(SearchPathPlugin):
    """Adds folders to Hydra's search path: --config-dir, and conf/ of every allowed package."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in _folders:
            search_path.append("--config-dir", f"file://{folder}")
        for name in allowed():
            place = _folder(name)
            if place is not None and (place / "conf").is_dir():
                search_path.append(f"plugin {name}", f"file://{place / 'conf'}")


Plugins.instance().register(_PluginConf)
