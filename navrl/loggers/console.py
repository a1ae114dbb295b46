"""The console: one line per iteration, or a live table where a person is looking."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from navrl.loggers import format
from navrl.loggers.base import Logger
from navrl.loggers.table import LiveTable, supports_unicode

STYLES = ("auto", "table", "lines", "none")
_HISTORY = 32
NO_WORDS: Mapping[str, Sequence[str]] = MappingProxyType({})


class ConsoleLogger(Logger):
    """Prints progress through `total` iterations; `headline` maps a label to the metric it shows.

    A label that ends in % shows a share in percent. Metrics `<key>_low` and `<key>_high`, the bounds of
    an interval, are shown behind their `<key>`. `words` holds, by key, what the numbers 1, 2, ... stand for.
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

    def log(self, metrics: Mapping[str, float], *, iteration: int, frames: int) -> None:
        """Print the line, or redraw the table below it."""
        if self._style == "none":
            return
        line = progress_line(
            metrics,
            iteration=iteration,
            frames=frames,
            total=self._total,
            headline=self._headline,
            words=self._words,
        )
        if self._style == "lines":
            self.note(line)
            return
        for key, number in metrics.items():
            self._history.setdefault(key, deque(maxlen=_HISTORY)).append(number)
        self._table.draw(line, self._history, unicode=self._unicode)

    def late(self, metrics: Mapping[str, float], iteration: int, frames: int) -> None:
        """Print a line about an earlier iteration; the table is about the newest one."""
        shown = {
            label: key.replace("episode/", "eval/", 1)
            for label, key in self._headline.items()
            if key.startswith("episode/")
        }
        parts = [f"iter {iteration} evaluated", f"{format.count(frames)} frames"]
        parts += [_headline(label, key, metrics) for label, key in shown.items()]
        self.note(" | ".join(parts))

    def note(self, text: str) -> None:
        """Print a sentence for the user without tearing the table."""
        if self._style == "table":
            self._table.note(text)
        elif self._style == "lines":
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def summary(self, metrics: Mapping[str, float]) -> None:
        """The run is judged: its last table stays on the screen."""
        self._table.leave()

    def close(self) -> None:
        """Give the terminal back as it was."""
        self._table.close()


def resolve_style(style: str, stream: TextIO, environment: Mapping[str, str]) -> str:
    """What `auto` means here: the table on a terminal that can redraw, else lines."""
    if style not in STYLES:
        raise ValueError(f"console style = {style!r} must be one of {', '.join(STYLES)}")
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
    """iter 12/40 | 1.2M frames | 48k fps | win 41% (35..47) | return 0.31 | stage 2 survive | eta."""
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
    """What the number stands for, if anything."""
    return f" {words[int(number) - 1]}" if number is not None and words else ""


def _headline(label: str, key: str, metrics: Mapping[str, float]) -> str:
    name, percent = label.rstrip("%").rstrip(), label.endswith("%")
    if key not in metrics:  # no episode has ended yet
        return f"{name} -"
    shown = [
        f"{100.0 * metrics[one]:.0f}" if percent else format.value(metrics[one])
        for one in (key, f"{key}_low", f"{key}_high")
        if one in metrics
    ]
    text = f"{name} {shown[0]}{'%' if percent else ''}"
    return f"{text} ({'..'.join(shown[1:])})" if len(shown) > 1 else text
