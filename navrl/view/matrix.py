"""The payoff matrix of a league as a heat map: one SVG text that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from navrl.config.checks import printable
from navrl.selfplay.payoff import Payoff

# Orange and blue stay apart in every common colour blindness; grey paper is even.
_LOSS, _EVEN, _WIN = (179, 88, 6), (247, 247, 247), (33, 102, 172)
_UNKNOWN = "#ffffff"
_LINE = 'stroke="#bbbbbb" stroke-width="0.5"'
_CELL_WIDTH, _CELL_HEIGHT = 58, 42  # pixels, like all lengths here
_EDGE = 16
_TITLE_HEIGHT = 34
_LETTER = 7.4  # the widest that a monospaced letter of 12 pixels gets
_STEPS = 10  # of the colour scale
_STEP = 26
_SCALE_HEIGHT = 56
_TITLE = "Score of row against column: a draw counts half"
_NOTE = "below a score: the number of games; -: none"
_FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"


def svg(payoff: Payoff) -> str:
    """Return a heat map with score and games in each cell, orange below 50 %, blue above."""
    players = payoff.players
    names = [f"{place} {printable(name)}" for place, name in enumerate(players, start=1)]
    label = round(max((len(name) for name in names), default=0) * _LETTER) + 12
    left, top = _EDGE + label, _TITLE_HEIGHT + label
    right, bottom = left + len(players) * _CELL_WIDTH, top + len(players) * _CELL_HEIGHT
    written = round(max(1.25 * len(_TITLE), len(_NOTE)) * _LETTER)
    width = max(right, _EDGE + written) + _EDGE
    height = bottom + _SCALE_HEIGHT + _EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="{_FONT}" font-size="12">',
        f"<title>{_TITLE}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_EDGE}" y="24" font-size="15" font-weight="bold">{_TITLE}</text>',
        *_labels(names, left, top),
        *_cells(payoff, left, top),
        *_scale(bottom + 14),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def colour(score: float) -> tuple[int, int, int]:
    """Return red, green and blue (0 to 255), on straight lines from loss over even to win."""
    end = _WIN if score >= 0.5 else _LOSS
    share = abs(2.0 * score - 1.0)
    red, green, blue = (
        round(even + share * (far - even)) for even, far in zip(_EVEN, end, strict=True)
    )
    return red, green, blue


def ink(background: tuple[int, int, int]) -> str:
    """Return black or white, whichever has the higher contrast (WCAG 2) on the background."""
    red, green, blue = (_linear(channel / 255.0) for channel in background)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#ffffff"


def _labels(names: list[str], left: int, top: int) -> Iterator[str]:
    for place, name in enumerate(names):
        x = left + (place + 0.5) * _CELL_WIDTH + 4
        y = top + (place + 0.5) * _CELL_HEIGHT + 4
        yield f'<text x="{left - 8}" y="{y:g}" text-anchor="end">{escape(name)}</text>'
        yield f'<text transform="translate({x:g} {top - 8}) rotate(-90)">{escape(name)}</text>'


def _cells(payoff: Payoff, left: int, top: int) -> Iterator[str]:
    for down, row in enumerate(payoff.players):
        for across, column in enumerate(payoff.players):
            x, y = left + across * _CELL_WIDTH, top + down * _CELL_HEIGHT
            yield f'<g transform="translate({x} {y})">{_cell(payoff, row, column)}</g>'


def _cell(payoff: Payoff, row: str, column: str) -> str:
    record = payoff.results(row, column)
    if not record.games:
        return _box(_UNKNOWN) + _text("-", 25, 13, "#767676")
    score = payoff.score(row, column, prior_games=0.0)
    shade = colour(score)
    hint = f"{row} against {column}: {record.wins} won, {record.draws} drawn, {record.losses} lost"
    large = _text(f"{score:.0%}", 19, 14, ink(shade))
    small = _text(f"{record.games}", 34, 10, ink(shade))
    return f"<title>{escape(printable(hint))}</title>{_box(_hex(shade))}{large}{small}"


def _scale(y: int) -> Iterator[str]:
    """Yield the legend of the colours: 0 %, 10 %, ... 100 %."""
    for step in range(_STEPS + 1):
        x = _EDGE + step * _STEP
        shade = _hex(colour(step / _STEPS))
        yield f'<rect x="{x}" y="{y}" width="{_STEP}" height="14" fill="{shade}" {_LINE}/>'
        if step in (0, _STEPS // 2, _STEPS):
            middle = x + _STEP / 2
            label = f"{step / _STEPS:.0%}"
            yield f'<text x="{middle:g}" y="{y + 28}" text-anchor="middle">{label}</text>'
    yield f'<text x="{_EDGE}" y="{y + 46}">{_NOTE}</text>'


def _box(fill: str) -> str:
    return f'<rect width="{_CELL_WIDTH}" height="{_CELL_HEIGHT}" fill="{fill}" {_LINE}/>'


def _text(text: str, y: int, size: int, fill: str) -> str:
    return (
        f'<text x="{_CELL_WIDTH / 2:g}" y="{y}" font-size="{size}" fill="{fill}" '
        f'text-anchor="middle">{text}</text>'
    )


def _linear(channel: float) -> float:
    """Return the linear light of an sRGB channel, both from 0 to 1."""
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _hex(shade: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*shade)
