"""Command lines of the form `navrl <command> [positional ...] [key=value ...] [--flags]`.

A word without "=" is positional: a policy, a run, a file. A word key=value is a setting of the command or an
option of navrl train. Flags choose the output, such as --json FILE.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError, printable
from navrl.config.compose import compose

_KEY = re.compile(r"[+~]*([A-Za-z_][\w./@-]*)(=|$)")


class Setting(NamedTuple):
    """A key of a command itself; the default determines the type of its values.

    A tuple takes values that are separated by commas, an empty one takes words; None takes a word or null.
    """

    default: int | float | str | tuple[int, ...] | tuple[str, ...] | None
    help: str


def show(text: str) -> None:
    """Print lines of text that may hold names from a file, which a stranger may have written."""
    sys.stdout.write("\n".join(map(printable, text.split("\n"))))


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def command_parser(
    command: str,
    description: str,
    examples: str,
    *,
    positional: tuple[str, str] | None = None,
    settings: Mapping[str, Setting] | None = None,
    overrides: str = "",
) -> argparse.ArgumentParser:
    """Return a parser whose --help explains the words and shows examples.

    `positional` is (name, help) of the words without "=", `overrides` the help of options of navrl train.
    With any of the three, the words become `options.words`, for `take_words` to read.
    """
    explained = [] if positional is None else [positional]
    explained += [(f"{key}=", setting.help) for key, setting in (settings or {}).items()]
    explained += [("KEY=VALUE", overrides)] if overrides else []
    width = max((len(name) for name, _ in explained), default=0)
    listed = "".join(f"  {name:<{width}}  {text}\n" for name, text in explained)
    epilog = f"words:\n{listed}\n" if explained else ""
    first = "" if positional is None else f"[{positional[0]}] "
    parser = argparse.ArgumentParser(
        prog=f"navrl {command}",
        usage=f"%(prog)s {first}[KEY=VALUE ...] [--flags]" if explained else None,
        description=description,
        epilog=f"{epilog}examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if explained:
        parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    if overrides:
        text = "a folder of yours with YAML like that in conf/"
        parser.add_argument("--config-dir", type=Path, metavar="DIR", help=text)
    return parser


class Action(NamedTuple):
    """A subcommand, such as `ls` of `navrl checkpoint ls`."""

    name: str
    run: Callable[[argparse.Namespace], int]
    help: str


def add_actions(
    parser: argparse.ArgumentParser, actions: Sequence[Action]
) -> dict[str, argparse.ArgumentParser]:
    """Add subcommands, each with an optional run or file, and return their parsers for more arguments."""
    parsers = parser.add_subparsers(metavar="ACTION", required=True)
    added = {}
    for action in actions:
        inner = parsers.add_parser(action.name, help=action.help, description=action.help)
        inner.set_defaults(run=action.run)
        inner.add_argument(
            "where",
            nargs="?",
            default="latest",
            help="latest, best, a run, its folder of such files, or a file; default: %(default)s",
        )
        added[action.name] = inner
    return added


def take_words(
    options: argparse.Namespace, settings: Mapping[str, Setting], *, positionals: int | None = 0
) -> None:
    """Replace options.words by options.positionals, options.overrides and one attribute per setting.

    `positionals` is the largest number of words without "=", None for any number.
    """
    values = {key: setting.default for key, setting in settings.items()}
    options.positionals, options.overrides = [], []
    for word in options.words:
        key = _key_of(word)
        if key is None:
            options.positionals.append(word)
        elif key in settings:
            values[key] = _value(key, word.partition("=")[2], settings[key].default)
        else:
            _check_near_miss(key, settings)
            options.overrides.append(word)
    if positionals is not None and len(options.positionals) > positionals:
        raise ConfigError(f"Cannot read '{options.positionals[positionals]}': write key=value")
    vars(options).update(values)
    del options.words


def _key_of(word: str) -> str | None:
    """Return the key of key=value or of ~key, None for a positional; a file may have a "=" in its name."""
    match = _KEY.match(word)
    if match is None or Path(word).exists() or not ("=" in word or word.startswith("~")):
        return None
    return match[1]


def _value(key: str, text: str, default: object) -> Any:
    """Return the text as a value of the default's type."""
    if isinstance(default, tuple):
        items = [item.strip() for item in text.strip("[] ").split(",") if item.strip()]
        return tuple(_value(key, item, default[0] if default else "") for item in items)
    if default is None or isinstance(default, str):
        return None if text == "null" else text
    whole = isinstance(default, int)
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{key} = {text}; expected {kind}; change {key}") from error


def _check_near_miss(key: str, settings: Mapping[str, Setting]) -> None:
    """Raise ConfigError if the key is unknown to navrl train and close to a setting."""
    close = [] if "." in key else difflib.get_close_matches(key, settings, n=1, cutoff=0.75)
    if close and key not in compose("train"):
        raise ConfigError(f"Unknown option '{key}'; did you mean '{close[0]}'?")
