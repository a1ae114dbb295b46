"""Numbers and foreign text in the form that people read."""

from __future__ import annotations

import math
from collections.abc import Sequence

_UNITS = ("", "k", "M", "G", "T")
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=*#"


def count(number: float) -> str:
    """Format a count: 12 -> 12, 48100 -> 48k, 1228800 -> 1.2M."""
    if not math.isfinite(number):
        return str(number)
    unit = 0
    while abs(number) >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000.0
        unit += 1
    digits = 1 if unit and abs(number) < 9.95 else 0
    return f"{number:.{digits}f}{_UNITS[unit]}"


def value(number: float) -> str:
    """Format a number with three significant digits; thousands as `count` does."""
    return count(number) if abs(number) >= 999.5 else f"{number:.3g}"


def size(number_of_bytes: float) -> str:
    """Format bytes: 12 -> 12 B, 48100 -> 48.1 kB, 1228800 -> 1.23 MB."""
    for unit in ("B", "kB", "MB"):
        if number_of_bytes < 1000:
            return f"{number_of_bytes:.3g} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:.3g} GB"


def duration(seconds: float) -> str:
    """Format a duration: 38 -> 0:38, 3723 -> 1:02:03, 183600 -> 2d 3h, not finite -> ?"""
    if not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def sparkline(numbers: Sequence[float], *, unicode: bool) -> str:
    """Return one character per number, between the lowest and the highest; a blank if not finite."""
    bars = _BARS if unicode else _ASCII_BARS
    finite = [number for number in numbers if math.isfinite(number)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    flat = 0 if scale else len(bars) // 2
    return "".join(
        bars[flat + int((number - low) * scale + 0.5)] if math.isfinite(number) else " "
        for number in numbers
    )
