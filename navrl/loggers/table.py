"""The live table of a terminal: redrawn in place with plain ANSI, cursor given back at the end."""

from __future__ import annotations

import atexit
import os
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

from navrl.loggers import format

_GROUPS = ("episode", "eval", "reward", "policy", "loss", "time")  # the rest follows by name
_CELL = 39  # name 20, value 9, trend 8 and the blanks between
_TREND = 8
_HIDE, _SHOW, _ERASE_LINE, _ERASE_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[K", "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class LiveTable:
    """Draws lines over the ones it drew before."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self._height = 0
        self._hidden = False

    def draw(self, title: str, history: Mapping[str, Sequence[float]], *, unicode: bool) -> None:
        """Replace the table on the screen by this one."""
        width, height = terminal_size(self._stream)
        lines = layout(title, history, width=width - 1, height=height - 1, unicode=unicode)
        if not self._hidden:
            # an exception that nobody catches still gives the cursor back
            atexit.register(self.close)
            self._stream.write(_HIDE)
            self._hidden = True
        if self._colour:
            lines[0] = f"{_BOLD}{lines[0]}{_PLAIN}"
        body = "".join(f"{line}{_ERASE_LINE}\n" for line in lines)
        self._stream.write(f"{self._rewind()}{body}{_ERASE_BELOW}")
        self._stream.flush()
        self._height = len(lines)

    def note(self, text: str) -> None:
        """Write a line above the table; the next `draw` continues below it."""
        self._stream.write(f"{self._rewind()}{_ERASE_BELOW}{text}\n")
        self._stream.flush()
        self._height = 0

    def leave(self) -> None:
        """Let the table stand; whatever comes next goes below it."""
        self._height = 0

    def close(self) -> None:
        """Leave the last table standing and show the cursor."""
        if self._hidden:
            atexit.unregister(self.close)
            self._hidden = False
            self._stream.write(_SHOW)
            self._stream.flush()

    def _rewind(self) -> str:
        return f"\x1b[{self._height}F" if self._height else ""


def layout(
    title: str,
    history: Mapping[str, Sequence[float]],
    *,
    width: int,
    height: int,
    unicode: bool,
) -> list[str]:
    """The table's lines: the title, then each group's block in the shortest column."""
    columns: list[list[str]] = [[] for _ in range(max(1, width // _CELL))]
    for block in _blocks(history, unicode=unicode):
        min(columns, key=len).extend(block)
    rows = max(len(column) for column in columns)
    for column in columns:
        column.extend([""] * (rows - len(column)))
    lines = [
        title,
        *("".join(cells).rstrip() for cells in zip(*map(_padded, columns), strict=True)),
    ]
    if len(lines) > height:
        hidden = len(lines) - height + 1
        lines = [*lines[: height - 1], f"({hidden} lines more in metrics.jsonl)"]
    return [line[:width] for line in lines]


def supports_unicode(stream: TextIO) -> bool:
    """Whether the stream can write the bars of a trend."""
    try:
        "±▁█".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the stream's terminal; 80 x 24 where it does not say."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24


def printable(text: str) -> str:
    """The text without control characters, which could move the cursor."""
    return "".join(c for c in text if not unicodedata.category(c).startswith("C"))


def _blocks(history: Mapping[str, Sequence[float]], *, unicode: bool) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for key, numbers in sorted(history.items()):
        if key.endswith(("_low", "_high")):  # the title shows it next to its metric
            continue
        group, _, name = key.rpartition("/") if "/" not in key else key.partition("/")
        trend = format.sparkline(list(numbers)[-_TREND:], unicode=unicode)
        row = f"  {printable(name)[:18]:<18} {format.value(numbers[-1]):>8} {trend:<{_TREND}}"
        groups.setdefault(group or "other", []).append(row)
    order = {group: place for place, group in enumerate(_GROUPS)}
    names = sorted(groups, key=lambda group: (order.get(group, len(order)), group))
    return [[f"{printable(name)}/", *groups[name]] for name in names]


def _padded(column: list[str]) -> list[str]:
    return [f"{cell:<{_CELL}}" for cell in column]
