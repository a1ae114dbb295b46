"""Checks of options, in one vocabulary; standard library only, so that every package may import it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Sequence
from pathlib import Path


class ConfigError(ValueError):
    """The error of a wrong configuration, in one sentence for the person who wrote it."""


def printable(text: object) -> str:
    """Return text from a file or a user that can neither move the cursor, change colours nor begin a line."""
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in plain
    )


def require(condition: bool, name: str, found: object, expected: str) -> None:
    """Raise ConfigError unless the condition holds: '<name> = <found>; expected ...; change <name>'."""
    if not condition:
        raise ConfigError(f"{name} = {found}; expected {expected}; change {name}")


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise ConfigError unless the value is a whole number from `least` to `most`."""
    fits = type(value) is int and value >= least and (most is None or value <= most)
    bounds = f", {least} or more" if most is None else f" from {least} to {most}"
    require(fits, name, value, f"a whole number{bounds}")


def require_number(
    name: str,
    value: object,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> None:
    """Raise ConfigError unless the value is finite and keeps the bounds: >= least, > above, <= most."""
    bounds = [f"of at least {least:g}"] if least is not None else []
    bounds += [f"above {above:g}"] if above is not None else []
    bounds += [f"of at most {most:g}"] if most is not None else []
    fits = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max  # false for NaN; math.isfinite fails at 10**400
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
    )
    require(fits, name, value, f"a finite number {' and '.join(bounds)}".rstrip())


def require_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise ConfigError unless the value is one of the choices; a close one is suggested."""
    known = [str(choice) for choice in choices]
    hint = did_you_mean(str(value), known)
    require(value in choices, name, value, f"one of {', '.join(known)}{hint}")


def require_flag(name: str, value: object) -> None:
    """Raise ConfigError unless the value is true or false."""
    require(type(value) is bool, name, value, "true or false")


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """Return "; did you mean 'X'?", or nothing if no candidate is close.

    Dotted names in the same place are compared by their last part, because the rest is alike anyway.
    """
    place, _, leaf = word.rpartition(".")
    parts = [(name, *name.rpartition(".")[::2]) for name in candidates]
    beside = {last: name for name, where, last in parts if where == place}
    close = [beside[last] for last in difflib.get_close_matches(leaf, beside, n=1)]
    if not beside:
        close = difflib.get_close_matches(word, candidates, n=1)
    root = f"{word.partition('.')[0]}." if place else ""
    same_leaf = [
        name
        for name, _, last in parts
        if last == leaf and (name.startswith(root) or name.endswith(f".{word}"))
    ]
    return "".join(f"; did you mean '{name}'?" for name in (close or same_leaf)[:1])


def require_writable(path: Path | None, option: str = "--output", suffix: str = "") -> None:
    """Raise ConfigError if a file that is wanted cannot be there: before hours of work, not after."""
    if path is None:
        return
    written = f"{option} {path}" if option.startswith("-") else f"{option} = {path}"
    if not path.name.endswith(suffix):
        raise ConfigError(f"{written}; expected a name that ends in {suffix}; change {option}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"{written}; expected a file in an existing folder; change {option}")
