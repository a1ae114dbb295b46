"""Matplotlib figures without a window, written as pictures (PNG) and, through ffmpeg, as films (MP4)."""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from navrl.storage.files import replacing

FRAMES_PER_S = 25
LONGEST_S = 24.0  # of film; what lasts longer is played faster
INCHES, DPI = (9.6, 7.2), 100  # 960 x 720: H.264 wants even numbers
_PACKAGES = ("matplotlib", "imageio_ffmpeg")
_ARROW = ((1.0, 0.0), (-0.75, 0.62), (-0.35, 0.0), (-0.75, -0.62), (1.0, 0.0))


def check_viz() -> None:
    """Raise one sentence if the packages of the viz extra are missing."""
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"pictures and films need {name.replace('_', '-')}, which is not installed; "
                "pip install 'navrl[viz]'"
            ) from error


def new_figure(inches: tuple[float, float] = INCHES) -> Any:
    """Return a figure of this size that no window shows."""
    # Between dollar signs a name would be a formula, and often none that can be read.
    importlib.import_module("matplotlib").rcParams["text.parse_math"] = False
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=inches, dpi=DPI)
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def save_picture(figure: Any, path: Path) -> None:
    """Write the figure as a PNG for print."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=1.5 * DPI, format="png")


def save_film(
    figure: Any, path: Path, *, end_s: float, speed: float, show: Callable[[float], Sequence[Any]]
) -> None:
    """Write the figure as an MP4; show(time_s) moves the moving artists and returns them, lowest first.

    `speed` is in seconds per second of film, and raised if the film would be too long.
    """
    ffmpeg = importlib.import_module("imageio_ffmpeg")
    canvas, size = figure.canvas, tuple(round(inches * DPI) for inches in INCHES)
    for artist in show(0.0):
        artist.set_animated(True)
    canvas.draw()
    background = canvas.copy_from_bbox(figure.bbox)  # drawn once, not per frame
    with replacing(path) as temporary:
        writer = ffmpeg.write_frames(
            str(temporary), size, pix_fmt_in="rgba", fps=FRAMES_PER_S, quality=7, macro_block_size=2
        )
        writer.send(None)
        for time_s in _frame_times(end_s, max(speed, end_s / LONGEST_S)):
            artists = show(time_s)
            canvas.restore_region(background)
            for artist in artists:
                artist.axes.draw_artist(artist)
            writer.send(bytes(canvas.buffer_rgba()))
        writer.close()


def arrow(heading_rad: float) -> list[tuple[float, float]]:
    """Return the marker of an aircraft or a missile with this heading."""
    cos, sin = math.cos(heading_rad), math.sin(heading_rad)
    return [(cos * ahead - sin * left, sin * ahead + cos * left) for ahead, left in _ARROW]


def _frame_times(end_s: float, speed: float) -> Iterator[float]:
    """Yield the time of every frame; the last one stays for a second."""
    frames = math.ceil(end_s / speed * FRAMES_PER_S)
    for frame in range(frames + FRAMES_PER_S):
        yield min(end_s, frame * speed / FRAMES_PER_S)
