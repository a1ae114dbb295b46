"""Commands to copy: words in the grammar of Hydra, and lines for a shell, whatever the names of files are."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
# Words that commands take instead of a path.
_NAMES = re.compile(r"latest|best|auto|\?\?\?|-.*|scripted:.*|zoo:.*", re.DOTALL)


def override(key: str, value: str | Path | Sequence[str]) -> str:
    """Return key=value so that Hydra reads the value back as this very text, or list of texts."""
    if not isinstance(value, str | Path):
        return f"{key}=[{','.join(map(_quoted, value))}]"
    text = str(value)
    plain = _PLAIN.fullmatch(text) and _reads_back(f"{key}={text}", text)
    return f"{key}={text if plain else _quoted(text)}"


def _quoted(text: str) -> str:
    # A backslash keeps OmegaConf from taking ${ for a reference, two are one before it.
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return QuotedString(literal, Quote.single).with_quotes()


def _reads_back(word: str, text: str) -> bool:
    """Return whether Hydra takes the word's value for this text: not for a number, null or true."""
    try:
        value = OverridesParser.create().parse_override(word).value()
    except HydraException:
        return False
    return isinstance(value, str) and value == text


def shell_line(words: Sequence[str]) -> str:
    """Return a line for a POSIX shell that passes exactly these words, in printable characters."""
    return " ".join(shlex.quote(word) if word.isprintable() else _printed(word) for word in words)


def _printed(word: str) -> str:
    """Return a word that holds line ends, control characters or bytes that are not UTF-8."""
    letters = (_escaped(letter) for letter in word)
    return f"\"$(printf '{''.join(letters)}')\""


def _escaped(letter: str) -> str:
    if letter.isprintable() and letter not in "\\'%-":
        return letter
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))


def shown_path(path: Path) -> str:
    """Return a folder as a word of a command here: relative if it is inside, and no name such as latest."""
    absolute = path.absolute()
    inside = absolute.is_relative_to(Path.cwd())
    text = str(absolute.relative_to(Path.cwd()) if inside else absolute)
    text = f"./{text}" if _NAMES.fullmatch(text) else text
    return f"{text}/" if text.endswith("\n") else text  # which the shell would cut off
