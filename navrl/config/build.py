"""Build objects from plain data: `_target_` names a class or function that a package of navrl exports."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from navrl.config import plugins
from navrl.config.checks import ConfigError, did_you_mean

# A configuration may build exactly what modules of these packages list in their __all__.
_SIMULATION = frozenset({"agents", "curriculum", "envs", "selfplay"})
# A configuration that came with a checkpoint may not build these: somebody else may have written it.
_RECORDING = frozenset({"collectors", "loggers", "storage"})
OPTIONS = "options"  # of a world from elsewhere, which may read any file that a text in them names
# Classes that read a file, or navrl.run.build for them, and the arguments that name it.
READ_BY: dict[str, tuple[str, ...]] = {"UserMap": ("path",), "Frozen": ("checkpoint",)}
READ_BY |= dict.fromkeys(("GymEnv", "PettingZooEnv", "VmasTeamEnv"), (OPTIONS,))
# A class of TorchRL may import what any text in its options names; other packages need plugins=.
FACTORY = "factory"
READ_BY |= {"TorchRLEnv": (FACTORY, OPTIONS)}
_LISTS = (Sequence, tuple, list)
_UNIONS = (typing.Union, type(int | None))
_STRUCTURES = (Mapping, Callable)
_SCALARS = frozenset({int, float, bool, str, type(None)})


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def construct(
    value: Any, path: str, *, from_checkpoint: bool, homes: Mapping[str, str] | None = None
) -> Any:
    """Build the object that `value`, found at `path`, describes; plain data stays as it is.

    `homes` are the paths where somebody else wrote what is found at a path: world for env.worlds.
    """
    path = (homes or {}).get(path, path)
    # Hydra's instantiate is not used: it resolves interpolations again after any check we could
    # make, and accepts every importable name except a short list of known dangers.
    if isinstance(value, list):
        return [
            construct(item, f"{path}[{index}]", from_checkpoint=from_checkpoint, homes=homes)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    special = {name for name in value if str(name).startswith("_") and str(name).endswith("_")}
    unknown = special - {"_target_", "_partial_"}
    if unknown:
        raise ConfigError(f"'{path}.{min(unknown)}' is not supported; use _target_ and _partial_")
    if "_target_" in value:
        target = _locate(str(value["_target_"]), f"{path}._target_", from_checkpoint)
    arguments = {
        name: construct(item, f"{path}.{name}", from_checkpoint=from_checkpoint, homes=homes)
        for name, item in value.items()
        if name not in special
    }
    if "_target_" not in value:
        return arguments
    return _call(target, arguments, path, partial=bool(value.get("_partial_", False)))


def files_read_by(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and name of every file that the objects below `value` read."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from files_read_by(item, f"{path}.{index}")
    if not isinstance(value, Mapping):
        return
    arguments = READ_BY.get(str(value.get("_target_")).rpartition(".")[2], ())
    imports = str(value.get(FACTORY)).startswith("torchrl.")
    for argument in arguments:
        for key, item in leaves(value.get(argument), f"{path}.{argument}".lstrip(".")):
            if argument not in (OPTIONS, FACTORY) or _names_a_file(item, any_text=imports):
                yield key, str(item)
    for name, item in value.items():
        yield from files_read_by(item, f"{path}.{name}")


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every value below `value` that is no mapping, list or null, with its key."""
    if isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            yield from leaves(item, f"{path}.{name}")
    elif value is not None:
        yield path, value


def _names_a_file(value: Any, *, any_text: bool) -> bool:
    return isinstance(value, str) and (any_text or os.sep in value or os.path.lexists(value))


def _locate(name: str, path: str, from_checkpoint: bool) -> Callable[..., Any]:
    """Return the class or function of that name, if a configuration may build it."""
    module_name, _, attribute = name.rpartition(".")
    root, package = [*module_name.split("."), ""][:2]
    if root in plugins.allowed():
        return plugins.find_target(name, path)
    allowed = _SIMULATION if from_checkpoint else _SIMULATION | _RECORDING
    if root != "navrl" or package not in allowed:
        source = "a checkpoint's configuration" if from_checkpoint else "a configuration"
        refused = f"'{path}' names '{name}', which {source} may not build"
        raise ConfigError(f"{refused}{plugins.advice(root)}")
    other_version = (
        f"'{path}' names '{name}', which this version of navrl does not have: the run was saved by another "
        "version; use that version, or train again"
    )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not module_name.startswith(error.name or "?"):
            raise  # our module exists, but something that it needs is not installed
        absent = f"'{path}' names '{name}', but there is no such module"
        raise ConfigError(other_version if from_checkpoint else absent) from error
    exported = list(getattr(module, "__all__", ()))
    if attribute not in exported:
        hint = did_you_mean(attribute, exported)
        absent = f"'{path}' names '{name}', which {module_name} does not export{hint}"
        raise ConfigError(other_version if from_checkpoint else absent)
    found: Callable[..., Any] = getattr(module, attribute)
    return found


def _call(
    target: Callable[..., Any], arguments: dict[str, Any], path: str, *, partial: bool
) -> Any:
    """Return target(**arguments), or the partial of it; explain a wrong argument."""
    # A metaclass, as TorchRL's environments have, hides the signature of the class; a NamedTuple
    # has no __init__ of its own and shows it.
    hidden = inspect.isclass(target) and target.__init__ is not object.__init__
    function = target.__init__ if hidden else target
    parameters = parameters_of(function)
    open_ended = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    unknown = [str(name) for name in arguments if name not in parameters and not open_ended]
    if unknown:
        meant = did_you_mean(unknown[0], list(parameters))
        raise ConfigError(
            f"Unknown key '{path}.{unknown[0]}' for {target.__module__}.{target.__qualname__}"
            f"{meant or '; leave it out, or the experiment= or curriculum= that sets it'}"
        )
    _check_types(function, arguments, path)
    if partial:
        return functools.partial(target, **arguments)
    given = {"self", *arguments}
    missing = [
        name
        for name, item in parameters.items()
        if name not in given and item.default is item.empty and item.kind not in _VARIABLE
    ]
    if missing:
        raise ConfigError(
            f"'{path}' lacks '{missing[0]}', which {target.__qualname__} needs; set it, or _partial_: true "
            "if it is given later; a run of another version of navrl needs that version, or a new training"
        )
    try:
        return target(**arguments)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        where = "" if str(error).startswith(f"{path}.") else f"{path}: "
        raise ConfigError(f"{where}{error}") from error


def _check_types(function: Callable[..., Any], arguments: Mapping[str, Any], path: str) -> None:
    """Refuse 'abc' where the function says int; int, float, bool, str, None and lists of them."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name imported for the type checker only
        return
    hints |= _unpacked(hints)
    for name in arguments.keys() & hints.keys():
        key, value, hint = f"{path}.{name}", arguments[name], hints[name]
        if typing.get_origin(hint) not in _LISTS:
            _check_scalar(key, value, typing.get_args(hint) or (hint,))
            _check_structure(key, value, hint)
            continue
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"'{key}' must be a list such as [1, 2], but got {value!r}")
        accepted = tuple(kind for kind in typing.get_args(hint) if kind is not Ellipsis)
        for index, item in enumerate(value):
            _check_scalar(f"{key}[{index}]", item, accepted)


def _check_structure(key: str, value: Any, hint: Any) -> None:
    """Refuse a number or a text where the function takes only mappings, functions or objects."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    homes = [typing.get_origin(kind) or kind for kind in kinds if kind is not type(None)]
    if homes == [Mapping] and isinstance(value, Mapping) and typing.get_args(hint):
        for name, item in value.items():
            _check_structure(f"{key}.{name}", item, typing.get_args(hint)[1])
    objects = all(home in _STRUCTURES or is_ours(getattr(home, "__module__", "")) for home in homes)
    if homes and objects and type(value) in (int, float, bool, str):
        expected = "a mapping" if homes == [Mapping] else "a group of options"
        raise ConfigError(
            f"'{key}' must be {expected}, but got {value!r}; see conf/ for what it holds"
        )


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters by name; those of `**options: Unpack[...]` are listed one by one."""
    found = dict(inspect.signature(function).parameters)
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name imported for the type checker only
        return found
    for name in [name for name, hint in hints.items() if typing.get_origin(hint) is typing.Unpack]:
        del found[name]
        (kind,) = typing.get_args(hints[name])
        for key in kind.__annotations__:
            default = inspect.Parameter.empty if key in kind.__required_keys__ else None
            found[key] = inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)
    return found


def _unpacked(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type hints of the options that `**options: Unpack[...]` stands for."""
    kinds = [
        typing.get_args(hint)[0]
        for hint in hints.values()
        if typing.get_origin(hint) is typing.Unpack
    ]
    return {key: hint for kind in kinds for key, hint in typing.get_type_hints(kind).items()}


def _check_scalar(key: str, value: Any, accepted: tuple[Any, ...]) -> None:
    got = type(value)
    if not {got, *accepted} <= _SCALARS or got in accepted or (got is int and float in accepted):
        return
    names = ("null" if kind is type(None) else kind.__name__ for kind in dict.fromkeys(accepted))
    raise ConfigError(f"'{key}' must be {' or '.join(names)}, but got {value!r}")


def is_ours(module_name: str) -> bool:
    """Return whether the module belongs to navrl."""
    return module_name in ("navrl", "__main__") or module_name.startswith("navrl.")
