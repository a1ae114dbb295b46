"""The console: one line per iteration, or a live table on a terminal, redrawn in place with plain ANSI."""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from navrl.config.checks import printable, require_choice
from navrl.loggers import format
from navrl.loggers.null import NullLogger

STYLES = ("auto", "table", "lines", "none")
_HISTORY = 32
NO_WORDS: Mapping[str, Sequence[str]] = MappingProxyType({})


class ConsoleLogger(NullLogger):
    """A printer of progress through `total` iterations; `headline` maps a label to the metric it shows.

    A label that ends in % shows a share in percent. Metrics `<key>_low` and `<key>_high`, the bounds of
    an interval, are shown behind their `<key>`. `words` holds, by key, names for the numbers 1, 2, ...
    """

    def __init__(
        self,
        *,
        total: int,
        headline: Mapping[str, str],
        style: str,
        words: Mapping[str, Sequence[str]] = NO_WORDS,
        stream: TextIO | None = None,
    ) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._total = total
        self._headline, self._words = dict(headline), dict(words)
        self._style = resolve_style(style, self._stream, os.environ)
        self._unicode = supports_unicode(self._stream)
        self._table = LiveTable(self._stream, colour="NO_COLOR" not in os.environ)
        self._history: dict[str, deque[float]] = {}
        self._latest: dict[str, float] = {}

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Print the line, or redraw the table below it."""
        if self._style == "none":
            return
        if metrics.get("episode/count", 1.0):  # else those of the last iteration with episodes stay
            self._latest = {k: v for k, v in metrics.items() if k.startswith("episode/")}
        line = progress_line(
            {**self._latest, **metrics},
            iteration=iteration,
            frames=frames,
            total=self._total,
            headline=self._headline,
            words=self._words,
        )
        if self._style == "lines":
            self.note(line)
            if any(key in metrics for key in self._held_out().values()):
                self.late(metrics, iteration, frames)
            return
        for key, number in metrics.items():
            self._history.setdefault(key, deque(maxlen=_HISTORY)).append(number)
        self._table.draw(line, self._history, unicode=self._unicode)

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Print a line about an evaluation, which may be of an earlier iteration than the table's."""
        parts = [f"iter {iteration} evaluated", f"{format.count(frames)} frames"]
        parts += [_headline(label, key, metrics) for label, key in self._held_out().items()]
        self.note(" | ".join(parts))

    def _held_out(self) -> dict[str, str]:
        """Return the headline's statistics of evaluations, by label."""
        return {
            label: key.replace("episode/", "eval/", 1)
            for label, key in self._headline.items()
            if key.startswith("episode/")
        }

    def note(self, text: str) -> None:
        """Print a sentence for the user without tearing the table; it may hold names from a file."""
        text = "\n".join(map(printable, text.splitlines()))
        if self._style == "table":
            self._table.note(text)
        elif self._style == "lines":
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Leave the last table on the screen."""
        self._table.leave()

    def close(self) -> None:
        """Restore the terminal."""
        self._table.close()


def resolve_style(style: str, stream: TextIO, environment: Mapping[str, str]) -> str:
    """Return the style, with `auto` resolved: table on a terminal that can redraw, else lines."""
    require_choice("console", style, STYLES)
    capable = stream.isatty() and environment.get("TERM", "dumb") != "dumb"
    if style == "auto":
        return "table" if capable else "lines"
    return "lines" if style == "table" and not capable else style


def progress_line(
    metrics: Mapping[str, float],
    *,
    iteration: int,
    frames: int,
    total: int,
    headline: Mapping[str, str],
    words: Mapping[str, Sequence[str]] = NO_WORDS,
) -> str:
    """Return `iter 12/40 | 1.2M frames | 48k fps | win 41% (35..47) | stage 2 survive | eta 1:02`."""
    parts = [f"iter {iteration}/{total}", f"{format.count(frames)} frames"]
    if "time/fps" in metrics:
        parts.append(f"{format.count(metrics['time/fps'])} fps")
    parts += [
        _headline(label, key, metrics) + _word(metrics.get(key), words.get(key, ()))
        for label, key in headline.items()
    ]
    if "time/eta_s" in metrics:
        parts.append(f"eta {format.duration(metrics['time/eta_s'])}")
    return " | ".join(parts)


def _word(number: float | None, words: Sequence[str]) -> str:
    """Return the name of the number, if it has one."""
    return f" {words[int(number) - 1]}" if number is not None and words else ""


def _headline(label: str, key: str, metrics: Mapping[str, float]) -> str:
    name, percent = label.rstrip("%").rstrip(), label.endswith("%")
    if key not in metrics:  # no episode has ended yet
        return f"{name} -"
    shown = [
        f"{100.0 * metrics[name]:.0f}" if percent else format.value(metrics[name])
        for name in (key, f"{key}_low", f"{key}_high")
        if name in metrics
    ]
    text = f"{name} {shown[0]}{'%' if percent else ''}"
    return f"{text} ({'..'.join(shown[1:])})" if len(shown) > 1 else text


# ---- the live table --------------------------------------------------------------------------------

_GROUPS = ("episode", "eval", "reward", "policy", "loss", "time")  # others follow by name
_CELL = 39  # name 20, value 9, trend 8 and blanks
_TREND = 8
_HIDE, _SHOW, _ERASE_LINE, _ERASE_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[K", "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class LiveTable:
    """A table that is drawn over its previous version."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self._height = 0
        self._hidden = False

    def draw(self, title: str, history: Mapping[str, Sequence[float]], *, unicode: bool) -> None:
        """Draw the table in place of the previous one."""
        width, height = terminal_size(self._stream)
        lines = layout(title, history, width=width - 1, height=height - 1, unicode=unicode)
        if not self._hidden:
            # an uncaught exception must still restore the cursor
            atexit.register(self.close)
            self._stream.write(_HIDE)
            self._hidden = True
        if self._colour:
            lines[0] = f"{_BOLD}{lines[0]}{_PLAIN}"
        text = "".join(f"{line}{_ERASE_LINE}\n" for line in lines)
        self._stream.write(f"{self._rewind()}{text}{_ERASE_BELOW}")
        self._stream.flush()
        self._height = len(lines)

    def note(self, text: str) -> None:
        """Write a line above the table; the next `draw` continues below it."""
        self._stream.write(f"{self._rewind()}{_ERASE_BELOW}{text}\n")
        self._stream.flush()
        self._height = 0

    def leave(self) -> None:
        """Keep the table; later output goes below it."""
        self._height = 0

    def close(self) -> None:
        """Keep the last table and show the cursor."""
        if self._hidden:
            atexit.unregister(self.close)
            self._hidden = False
            self._stream.write(_SHOW)
            self._stream.flush()

    def _rewind(self) -> str:
        return f"\x1b[{self._height}F" if self._height else ""


def layout(
    title: str, history: Mapping[str, Sequence[float]], *, width: int, height: int, unicode: bool
) -> list[str]:
    """Return the lines of the table: the title, then each group's block in the shortest column."""
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
    """Return true if the stream can write the bars of a trend."""
    try:
        "±▁█".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return columns and lines of the stream's terminal, or 80 x 24 if unknown."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24


def _blocks(history: Mapping[str, Sequence[float]], *, unicode: bool) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for key, numbers in sorted(history.items()):
        if key.endswith(("_low", "_high")):  # shown in the title next to its metric
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
