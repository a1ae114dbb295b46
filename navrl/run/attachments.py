"""Files about a finished run for loggers: its checkpoints, and a replay of its final policy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from navrl.config.checks import printable
from navrl.loggers.null import PICTURE, REPLAY
from navrl.run.stored_files import Repeated
from navrl.storage.files import make_directory
from navrl.storage.find import CheckpointNotFound, find
from navrl.storage.info import BEST, LATEST

_LONGEST_S = 600.0  # of a replay


def attachments(
    run: Path, wanted: Collection[str], files: Repeated, note: Callable[[str], None]
) -> Iterator[tuple[str, Path]]:
    """Yield kind and path of the files that are wanted; what cannot be had costs a note and not the run."""
    for kind in (BEST, LATEST):  # wandb calls the last one latest
        with contextlib.suppress(CheckpointNotFound):
            if kind in wanted:
                yield kind, find(str((run / "checkpoints" / kind).absolute()), run)
    if REPLAY in wanted or PICTURE in wanted:
        try:
            page = record_final(run, files, picture=PICTURE in wanted)
        except (OSError, subprocess.TimeoutExpired) as error:
            note(f"no replay for the loggers, for navrl replay ended so: {error}")
            return
        pictures = {REPLAY: page, PICTURE: page.with_suffix(".png")}
        yield from ((kind, path) for kind, path in pictures.items() if kind in wanted)


def record_final(run: Path, files: Repeated, *, picture: bool) -> Path:
    """Write an episode of the newest policy as a page, perhaps with a picture beside it.

    `navrl replay` in a process of its own draws none of the random numbers of this one.
    """
    make_directory(run / "replays")
    page = (run / "replays" / "final.html").absolute()
    options = [f"--output={page}", *(["--png"] if picture else [])]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "navrl.cli",
            "replay",
            str(run.absolute()),
            *files.evaluate,
            *options,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.splitlines() or [f"navrl replay ended with exit code {done.returncode}"]
        raise OSError(printable(lines[-1].removeprefix("navrl: error: ")))
    return page
