"""The names of checkpoints, and the facts in their headers.

Imports no torch, which takes seconds, for what only lists runs.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from navrl.storage.header import CorruptFile, ForeignFile, is_count, read_header

LATEST = "latest"
BEST = "best"
KIND = "checkpoint"
_STEP = re.compile(r"step_(\d{12,18})\.ckpt")


class CheckpointInfo(NamedTuple):
    """The facts about an intact checkpoint besides its state."""

    frames: int
    stage: int  # of the curriculum, in which the score was made
    score: float | None
    sha256: str

    @property
    def rank(self) -> tuple[int, float] | None:
        """The order of `best`: any score is better than those of an earlier stage, which is easier."""
        return None if self.score is None else (self.stage, self.score)


def read_info(path: Path) -> CheckpointInfo:
    """Return the facts in the header of a checkpoint; the state itself is not looked at."""
    header = read_header(path)
    return CheckpointInfo(*facts_of(path, header.meta), header.sha256)


def facts_of(path: Path, meta: Mapping[str, Any]) -> tuple[int, int, float | None]:
    """Return frames, stage and score in the metadata of a checkpoint; raise CorruptFile if they are none."""
    if meta.get("kind") != KIND:
        raise ForeignFile(path, f"is of kind {meta.get('kind')!r:.40}; expected '{KIND}'")
    frames, stage, score = meta.get("frames"), meta.get("stage", 0), meta.get("score")
    scored = score is None or (type(score) is float and math.isfinite(score))  # JSON's 1e999 is inf
    if not is_count(frames) or not is_count(stage) or not scored:
        raise CorruptFile(
            path, "header", "frames and stage must be counts and score a finite float or null"
        )
    return frames, stage, score


def checkpoint_name(frames: int) -> str:
    """Return the file name of the checkpoint taken after that many frames."""
    if not 0 <= frames < 10**18:
        raise ValueError(f"frames = {frames} must be between 0 and 10^18")
    return f"step_{frames:012d}.ckpt"


def frames_of(name: str) -> int:
    """Return the frames in the name of a checkpoint."""
    match = _STEP.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a checkpoint name like {checkpoint_name(0)!r}")
    return int(match[1])


def checkpoint_files(directory: Path) -> list[Path]:
    """Return all checkpoint files of a directory, most frames first, intact or not."""
    found = [path for path in directory.iterdir() if _STEP.fullmatch(path.name)]
    return sorted(found, key=lambda path: frames_of(path.name), reverse=True)
